"""How many cycles does our trained network give for a trace, on each design?

- `model_files`: Our trained network:
- `program_features`: What does our network see of an instruction, and which classes of latency does it predict?
"""
