"""How are Timeloop's own input files read?

- `yaml_tree`: YAML as a tree that remembers lines and tags; `architecture`: a design, versions 0.2 to 0.4, and energy tables;
  `loops`: directives of one target; `files`: problem, mapping, constraints, and the inputs of a command file by file.
"""
