"""How well does a network predict retire latencies, and does it rank designs as the simulator does?

- `corpus`: Which instructions does a model learn from, which choose it, and which test it?
- `instruction_features`: What does NeuroScalar's network see of an instruction, and in which windows?
- `latency_target`: What is predicted:
- `model_files`: Our trained network:
- `program_features`: What does our network see of an instruction:
"""
