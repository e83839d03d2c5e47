"""Latency of one operator on one device."""
