"""How long is a training step, what must a GPU hold, and which plan is best? Plan, work, step, memory, schedule, search.

- `answers`: How long does a training step take, how sure is that, and does it fit?
- `cases`: What does a row of a table of training runs say, and what has to be assumed?
- `config`: What do the YAML files of `train` and `train search` say?
- `interval`: How sure is a predicted step?
- `kernels`: How long does a kernel of a training step take on a device?
- `machines`: On what does a training run take place?
- `memory`: What must one GPU hold in a training step, and does it fit?
- `programs`: What does a training program do by default?
- `schedule`: In which order does a pipeline's stage run its passes?
- `search`: All parallel plans of a model on some GPUs, each a row of `predict training`:
- `shares`: Fitted shares:
- `step`: How do the parts make a step?
- `traces`: A predicted training step as Chakra traces, one a rank, so that ASTRA-sim (or `replay`) times its collectives on a network
- `views`: One training run as `train` shows it:
- `work`: What does one GPU do in a training step?
"""
