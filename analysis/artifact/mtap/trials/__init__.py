"""How long from nothing to a first prediction, tool by tool, installed live; and does it still work a year later?

- `catalogue`: Which tools can be tried, how do their own instructions install and run them, and which cures are known?
- `containers`: Container files that tools ship, built without root on their base images or on stand-ins: which step ends it, and what ...
- `exercises`: What does it take to add an accelerator and a workload that a tool does not know?
- `records`: A run of the trials against the last recorded one:
- `running`: One deployment trial:
"""
