"""Studies of CPU cores: learned cycles, the Neutrino accelerator, the NeuroScalar system.

- `recorded_retirement`: When did gem5 retire each instruction:
- `programs`: The programs of our own:
- `trace_files`: Reads the .npz file that `core trace` writes, and makes a trace of instructions given one by one
- `blocks/`: Scores of the basic-block models
- `first_order/`: About how long does each instruction take, in one pass over the trace, with nothing fitted?
- `learning/`: Networks that learn a core's cycles: training, accuracy, ranking
- `neutrino/`: What does Neutrino, the paper's accelerator for its network, cost, and what does its integer arithmetic lose?
- `system/`: NeuroScalar's system: collector, driver, telemetry, signatures, repository
"""
