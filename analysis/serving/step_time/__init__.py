"""How long a batch takes: `linear` (fitted coefficients), `profile` (VIDUR's measured tables), `roofline` (device and model), `speculative`
(a draft proposes tokens, the model checks them)."""
