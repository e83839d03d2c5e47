"""Benchmarks, one file a room; `make bench` prints each figure beside its target."""
