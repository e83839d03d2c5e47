"""Collectives of GPUs by a formula that was calibrated on measured machines: `form` (formula and parameters), `series` (what was measured),
`fit` (parameters, answers with a machine left out, intervals), `freeze` (what the full tier commits)."""
