"""Workloads: transformer shapes, layer lists, execution traces."""
