"""Collectives of GPUs by a formula that was calibrated on measured machines: `form` (formula and parameters), `series` (what was measured),

- `form`: How long does a collective of GPUs take over a link?
"""
