"""How long does a StableHLO program take on a device? From its operators to a sum, by fidelity.

- `device_rates`: At what rate does a device run arithmetic of a StableHLO type, and what share of its peaks does it reach?
- `device_work`: What does a device do for an operator that XLA's cost analysis counts otherwise?
- `measured_kernels`: Time of a program's matrix products by the kernel tables of the device
- `predict`: How long does a program take on a device?
- `predict_report`: The answer of a predictor as plain rows and numbers
- `predict_trace`: A predicted program as Chakra traces, one a device, so that ASTRA-sim (or `analysis.networks`) times the collectives ...
- `study_fusion`: Which operators of a program run as one kernel, and what does each kernel read and write?
- `systolic_device`: How long does a TPU take for a matrix product in its matrix units, and for what these do not do in its vector unit?
"""
