"""Which named programs are there, without weights?

- `blocks`: Two blocks beyond plain transformers as JAX programs:
- `catalogue`: The zoo:
- `files`: Workloads of the zoo as files
- `programs`: The zoo's programs:
- `resnet`: ResNet (v1.5:
- `transformer`: The forward pass of a transformer as a plain JAX program, for any model of `models.yaml` whose blocks are alike
- `transformer_steps`: Whole passes of a transformer as JAX programs:
"""
