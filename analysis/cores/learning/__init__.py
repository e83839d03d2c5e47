"""How well does a network predict retire latencies, and does it rank designs as the simulator does?

- `corpus`: which blocks of instructions are for fitting, for choosing and for testing.
- `instruction_features`, `latency_target`: what NeuroScalar's network reads and predicts; `program_features`: what ours reads.
- `lstm`, `backbones`, `paper_training`: NeuroScalar's network, other backbones in its place, and its training.
- `shared_trunk`, `trunk_training`: our network, one trunk for all designs, and its training; `model_files`: weights as safetensors.
- `accuracy`, `ranking`: errors by instruction, order of designs. `study`, `sizes`: the comparison; `freeze`: its long part, resumable.
"""
