"""What do zeros save?

- `compute`: What do zeros save in the array:
- `formats`: How many bits does a sparse tensor take in each format, and from what density on does compressing it pay?
"""
