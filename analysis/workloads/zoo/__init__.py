"""Which named programs are there, without weights?

- `transformer`, `transformer_steps`, `blocks`, `resnet`: the JAX programs;
  `programs`: their arguments and sharding; `catalogue`: names, options, lowering; `files`: workloads as files.
- `shipped`: the modules that ship with the project; `published_steps`: published training steps and what each device runs of them.
"""
