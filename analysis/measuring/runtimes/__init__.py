"""What runs the operators: `jax_runtime`, `onnx_runtime`, `numpy_runtime`; `fill` makes their inputs."""
