"""CPU cores. Each subpackage answers one question, in the order in which data passes through them:

- `riscv`: what does a program do? A user-mode emulator that writes an instruction trace.
- `timing`: when does each instruction of a trace retire on an out-of-order core of a given design? Cycle by cycle, after gem5's O3.
- `first_order`: about when, in one pass without cycles, and which limits does the program itself set?
- `learning`: how well does a network predict retire latencies (NeuroScalar's and ours), and does it rank designs?
- `neutrino`: what does the paper's accelerator for that network cost in cycles, area, power and accuracy?
- `system`: what else does a deployed system need: collector, driver, signatures, repository, encryption, telemetry?
"""
