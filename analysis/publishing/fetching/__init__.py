"""Datasets of others: `fetch` (what `make data` does), `download` (to an announced size and checksum), `wheel` (a dataset inside a Python
package), `convert` and its converters (into one CSV a dataset), `torch_file` (reads a PyTorch file and runs nothing in it)."""
