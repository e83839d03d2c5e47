"""Topologies, collectives, trace replay, calibrated networks.

- `cases` (one collective on one network; from ASTRA-sim's files by `native`), `case_table` (a table of them) -> `collectives` (cycles), by
  `closed_forms` (formulas, many at once) or `event_simulation` (event by event); `codes` are names inside compiled functions.
- `network_file` (a network from YAML) and `trace` (what each rank does) -> `replay` (how long, how much exposed) -> `timeline`.
- `measured_fabrics`: all-reduce of real machines, fitted.
"""
