"""Latency of an offline batch on many kinds of device.

- `answers`: How long does an offline batch of prompts take?
- `cases`: What does a row of a table of offline batches say?
- `model`: How long do prefill and decode of a batch take?
"""
