"""How long from nothing to a first prediction, tool by tool, installed live; and does it still work a year later?

- `catalogue`: which tools, how their own instructions install and run them, and the cures that are known.
- `running`: one trial, step by step, timed; failures classed.
- `bisecting`: which versions of a dependency a tool works with.
- `exercises`: an accelerator and a workload added to each tool.
- `records`: a run against the last recorded one: what has changed since?
"""
