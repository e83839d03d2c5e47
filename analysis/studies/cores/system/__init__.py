"""NeuroScalar's system: collector, driver, telemetry, signatures, repository.

- `collector`: What does the trace collector cost:
- `driver`: The driver's side:
- `epoch_signatures`: Which epochs ran the same code:
- `rank`: How many cycles does a trace take on each design by a trained model, in which order, and how sure is the order?
- `repository`: Where models come from:
- `sealed`: Keep a trace unreadable, at rest or from the moment it is collected:
- `telemetry`: What leaves the user's machine:
- `verdict_sampling`: How many sampled epochs does it take until the verdict between two designs is right with a given confidence?
"""
