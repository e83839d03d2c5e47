"""Other people's end-to-end measurements, and who is right about them.

- `clean`: What is wrong with a measured serving point?
- `freeze`: What do the studies of the measured suite come to?
- `rows`: Which measured systems are there?
- `score`: How right are somebody's predictions of the measured suite?
- `tools`: Who is right about what?
"""
