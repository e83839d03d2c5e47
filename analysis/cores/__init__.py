"""CPU cores. Each subpackage answers one question, in the order in which data passes through them:

- `riscv`: what does a program do? A user-mode emulator that writes an instruction trace.
- `timing`: when does each instruction of a trace retire on an out-of-order core of a given design? Cycle by cycle, after gem5's O3.
"""
