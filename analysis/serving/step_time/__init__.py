"""How long a batch takes: `linear` (fitted coefficients), `roofline` (device and model), `gpu_profile` (its kernels).

- `gpu_profile`: How long does a batch take on a GPU whose kernels were profiled for a model?
- `linear`: Step time as a linear function of what is in a batch, fitted to recorded batches
- `roofline`: How long does a batch take, from the data sheets alone?
"""
