"""Topologies, collectives, trace replay, calibrated networks."""
