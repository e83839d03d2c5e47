"""How long a batch takes: `linear` (fitted coefficients), `profile` (VIDUR's measured tables), `roofline` (device and model),

- `gpu_profile`: How long does a batch take on a GPU whose kernels were profiled for a model?
- `linear`: Step time as a linear function of what is in a batch, fitted to recorded batches
- `profile`: How long does a batch take, from a profile of batches already timed?
- `roofline`: How long does a batch take, from the data sheets alone?
"""
