"""Bibliography, tool table, taxonomy, coverage.

- `accuracy`: What is printed of each tool's accuracy:
- `bibliography`: The bibliography:
- `cards`: One file a tool:
- `choosing`: Which tools answer a question, and what is known of each:
- `claimed`: What tools claim against what was measured:
- `diagrams`: Boxes and arrows of the drawn figures, in one style
- `protocol`: The survey draft's search protocol, as printed, with what of it can be repeated
- `references`: The reference lists as printed, against the corrected bibliography and against each other
- `taxonomy`: The two taxonomies as tables computed from the tools, their gaps, and what the documents say of both
- `tools`: The table of tools:
- `workloads`: Which workloads each tool was validated on, by year:
"""
