"""Latency of one operator on one device.

- `tiles`, `wave_scaling`, `learned`: the formulas of the field as the survey prints them.
- `fp32_kernels`: measured fp32 GPU kernels (NeuSight's data): physics, learned correction, intervals, left-out devices.
- `networks`: latency of whole networks from their operators: few-shot transfer to new devices, fusion detection, sums.
- `blocks`: throughput of basic blocks on CPU cores. `schedules`: which schedule of a fused kernel to try first.
- `active_learning`: which operators should be measured next?
"""
