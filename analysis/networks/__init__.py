"""How long does a collective take on a machine, and how long a trace on a network?

- `collective_time` (the one time of a collective: measured, by `calibrated`, or a closed form); `collective_cases` (a table).
- ASTRA-sim's networks, to the cycle: `cases` (one collective on one network; from the tool's files by `native`), `case_table` (a table of
  them, read by `columns`) -> `collectives` (cycles), by `closed_forms` (formulas, many at once) or `event_simulation` (event by event);
  `codes` are names inside compiled functions.
- `network_file` (a network from YAML) and `trace` (what each rank does) -> `replay` (how long, how much exposed).
"""
