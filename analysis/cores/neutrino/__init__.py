"""What does Neutrino, the paper's accelerator for its network, cost, and what does its integer arithmetic lose?

- `machine`: lanes, buffers, tiles and the instructions of a tile; `compiler`: the tile program of one time step.
- `cycles`: how long that program takes; `int8`: what it computes, executed bit for bit; `accuracy`: what the integers lose.
- `costs`: clock, energy and sampling interval from the printed rate, power and area.
- `batched_inference`: the same network on one CPU core, for comparison.
"""
