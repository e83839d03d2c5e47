"""Bibliography, tool table, taxonomy, coverage.

- Records: `bibliography` (works) and `references` (the lists as printed, against it), `tools` (one row a tool), `cards` (one file a tool),
  `accuracy` and `claimed` (errors as printed, and against measurements), `workloads`, `protocol` (the search).
- From them: `taxonomy` (tables and gaps), `choosing` (which tools answer a question), `changes` (what changed, read off the history).
- Pictures: `charts` (of the records), `diagrams` and `mechanisms` (drawn).
"""
