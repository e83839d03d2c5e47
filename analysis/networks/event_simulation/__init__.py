"""How long does a workload take, event by event? The system, workload and network layers of ASTRA-sim, one event at a time.

The reference path of `networks`: it follows the tool's order of events (chunks, queues of each dimension, endpoint delays, reductions,
store-and-forward links, hardware slots), so that ties fall as they fall there. The closed forms of `closed_forms` are tested against it.
From the bottom up: `records`, `messages`, `phases`, `loop`. Rules: `data/recorded/astra-sim/SEMANTICS.md`.
"""
