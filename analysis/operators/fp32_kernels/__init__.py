"""How long does an fp32 GPU kernel take, also on a GPU that nobody measured? In the order of the data:

- `cases`: what a case is and what a predictor answers; `devices`: data sheets of the GPUs.
- `physics`: work, tiles and waves of a kernel by its data sheet; `features`: the ratios that carry over between GPUs.
- `residual`: the hybrid predictor, physics times a learned correction; `selection`: its settings, chosen by nested leave-one-device-out;
  `conformal`: its intervals; `model`: the shipped model; `answers`: a file of cases answered by it.
- `baselines`: what it is compared with: data-sheet models, plain trees, Habitat; `comparison`: all on the same left-out devices;
  `transfer`: trained on one kind of operator, tested on another.
- `evaluation`: splits and errors; `tables`: the tables of the chapters; `freeze`: everything that needs the measured kernels.
"""
