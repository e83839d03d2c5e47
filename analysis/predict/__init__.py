"""The front door: one question, a file of cases, a program, a recommendation.

- `program/`: How long does a StableHLO program take on a device? From its operators to a sum, by fidelity
- `recommend/`: Which plan meets a target at least cost?
"""
