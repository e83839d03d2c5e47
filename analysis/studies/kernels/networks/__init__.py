"""How long does a whole network take, from its operators or from a few samples on a new device?

- `few_shot`: Latency of architectures on a new device from a few samples, with other devices as the prior
- `few_shot_freeze`: The few-shot study in full:
- `few_shot_spaces`: HELP's search spaces:
- `few_shot_trial`: The few-shot trial:
- `fusion_detection`: nn-Meter's two ideas:
- `kernel_lists`: Which kernels does a whole network launch?
- `sums`: How far are networks sums of their parts?
"""
