"""Benchmarks, one file a subpackage; `make bench` prints each figure and its target."""
