"""Datasets of others: `fetch` (what `make data` does), `download` (to an announced size and checksum), `wheel` (a dataset inside a Python
package), `convert` (original files into tables, by `convert_help`, `convert_measured`, `convert_neusight` and `convert_pmevo`),
`torch_file` (reads a PyTorch file and runs nothing in it)."""
