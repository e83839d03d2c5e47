"""What runs the operators: `jax_runtime`, `onnx_runtime`, `numpy_runtime`; `fill` makes their inputs.

- `fill`: Values for inputs and weights:
- `jax_runtime`: Operators and whole models in JAX:
- `numpy_runtime`: Operators in NumPy, whose products are OpenBLAS's
- `onnx_runtime`: Operators and whole models in ONNX Runtime:
"""
