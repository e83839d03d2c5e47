"""How are Chakra execution traces (`NAME.RANK.et`) read and written?

- `node`: one node, from a trace or a table; `traces`: the protobuf messages, and files in and out.
"""
