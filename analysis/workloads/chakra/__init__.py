"""How are Chakra execution traces (`NAME.RANK.et`) read and written?

- `schema`: the protobuf messages; `node`: one node, from a trace or a table; `traces`: files in and out.
"""
