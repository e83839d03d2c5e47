"""Loop nests and mapper, systolic arrays, sparsity, energy."""
