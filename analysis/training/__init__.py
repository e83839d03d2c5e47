"""Step time and memory of parallel training."""
