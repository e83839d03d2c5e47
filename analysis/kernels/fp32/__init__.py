"""Kernels in fp32 on GPUs of 2016 to 2022 (NeuSight's operators): physics times a learned correction.

- `cases`: What is a GPU kernel case, and what does a predictor answer?
- `devices`: What does a kernel predictor know of a GPU?
- `features`: Which numbers about a kernel on a GPU carry over to another GPU?
- `model`: The kernel predictor that is shipped:
- `physics`: What must a kernel do, and how long does that take on a GPU by its data sheet?
"""
