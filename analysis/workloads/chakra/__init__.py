"""How are Chakra execution traces (`NAME.RANK.et`) read and written?

- `node`: one node, from a trace or a table, and those of a rank as they are added; `traces`: the protobuf messages, and files in and out;
- `rescale`: a trace for more data-parallel replicas than it was taken with.
"""
