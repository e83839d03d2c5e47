"""How long a batch takes: `linear` (fitted coefficients), `profile` (VIDUR's measured tables), `roofline` (device and model),
`gpu_profile` (kernels of a profiled GPU), `speculative` (a draft proposes tokens, the model checks them)."""
