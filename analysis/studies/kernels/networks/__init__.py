"""How long does a whole network take, from its operators operator by operator?

- `fusion_detection`: nn-Meter's two ideas:
- `kernel_lists`: Which kernels does a whole network launch?
"""
