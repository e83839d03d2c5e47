"""The training model of 2021 with fixed efficiencies: a baseline of the study that scores it.

- `block`: The kernels of one transformer block on one GPU:
- `calibrate`: Fits one set of efficiencies for a GPU type to published steps, leaves one model out at a time, and scores other runs
- `communication`: Time of the collectives of a plan, as the fixed-efficiency baseline of `training` and the published steps of ...
- `kernel_time`: Time of the kernels of a block:
- `memory`: Memory of one GPU in a training step, by what fills it
- `plan`: Plans and programs of the baseline
- `published`: Published training steps as cases of the model:
- `published_other`: Published steps on other programs and devices:
- `step`: Time of one training step and what it is made of
"""
