"""What does one mapping of one layer cost on one design: cycles, energy, every access count?

- `architecture`: An accelerator as storage levels, the fan-out between them, and what a mapping may not do
- `evaluation`: Cycles, energy and every access count of one mapping of one layer on one design, by Timeloop's rules
- `fast`: The same counts as `evaluation`, compiled:
- `lanes`: Tiles side by side, compiled:
- `layer`: Layers read from YAML:
- `mapping`: How a problem is laid on an accelerator:
- `problem`: What is computed:
- `reuse`: How many words move from one storage level to the next:
- `tables`: A problem and a design as plain arrays, for the compiled evaluator, and mappings to and from factors and orders
"""
