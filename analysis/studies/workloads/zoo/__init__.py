"""Which named programs are there, without weights, and which published steps do they stand for?

- `blocks`: Two blocks beyond plain transformers as JAX programs:
- `catalogue`: The zoo:
- `files`: Workloads of the zoo as files
- `programs`: The zoo's programs:
- `published_steps`: Which published training steps does the study score, and what does each device of them run?
- `resnet`: ResNet (v1.5:
- `shipped`: The StableHLO modules that ship with the project:
- `transformer`: The forward pass of a transformer as a plain JAX program, for any model of `models.yaml` whose blocks are alike
- `transformer_steps`: Whole passes of a transformer as JAX programs:
"""
