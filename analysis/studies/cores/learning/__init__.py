"""Networks that learn a core's cycles: training, accuracy, ranking.

- `accuracy`: How accurate are predicted retire latencies, and how accurate is a trivial baseline?
- `corpus`: Which instructions does a model learn from, which choose it, and which test it?
- `freeze`: The long part of the comparison, piece by piece, for the full tier:
- `instruction_features`: What does NeuroScalar's network see of an instruction, and in which windows?
- `latency_target`: What NeuroScalar's network predicts:
- `lstm`: NeuroScalar's network:
- `model_files`: Our trained network:
- `paper_training`: How is NeuroScalar's network trained for one design, and what does it predict?
- `program_features`: What does our network see of an instruction:
- `ranking`: Does a model order designs as the simulator does:
- `shared_trunk`: Our network:
- `study`: The comparison:
- `trunk_training`: How is our network trained, and what does it predict for a trace?
"""
