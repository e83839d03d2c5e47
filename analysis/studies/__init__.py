"""What only notebooks and freezing need: splits, scores, trials, baselines and peers.

- `attempts`: The log of every configuration that was tried:
- `checkable`: Which functions may a check of the claims call, and with which arguments?
- `datasets`: Other people's measured data:
- `freezing`: How is long work frozen?
- `intervals`: How sure is a number? Resampling of what is independent, quantiles of calibrated intervals
- `statistics`: Errors, rank correlations and exact tests of small samples
- `written_tables`: Tables that people write, a pydantic model a row, with errors that name file, line and column
- `accelerators/`: Studies of spatial accelerators: fusion, processing in memory, sparsity
- `composition/`: How do errors compose from kernels to models?
- `cores/`: Studies of CPU cores: learned cycles, the Neutrino accelerator, the NeuroScalar system
- `kernels/`: Studies of kernel predictors: the survey's formulas, learned models, evaluation of today's kernels
- `networks/`: Fits and scores of the calibrated collectives
- `serving/`: Studies of serving: agreement with VIDUR, lengths, load, capacity, energy, other sources
- `sites`: How much closer do ten measured points of a site bring the predictor to its others?
- `suite/`: Other people's end-to-end measurements, and who is right about them
- `training/`: Fit and scores of the training predictor, and the baselines that it is compared with
- `workloads/`: Workload studies: layers, shipped programs
"""
