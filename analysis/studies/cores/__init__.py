"""Studies of CPU cores: learned cycles, the Neutrino accelerator, the NeuroScalar system.

- `recorded_retirement`: When did gem5 retire each instruction:
- `blocks/`: Scores of the basic-block models
- `learning/`: Networks that learn a core's cycles: training, accuracy, ranking
- `neutrino/`: What does Neutrino, the paper's accelerator for its network, cost, and what does its integer arithmetic lose?
- `system/`: NeuroScalar's system: collector, driver, telemetry, signatures, repository
"""
