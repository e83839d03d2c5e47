"""What does a RISC-V program do? From a source to an instruction trace, in this order:

- `programs`: the programs of our own, and how they are built.
- `elf`: segments and entry of an executable; `linux`: its first stack and its system calls.
- `decode`, `compressed`, `operations`: from an encoding to an operation number with registers and class; `extensions`: whose one is that
  is refused.
- `emulator`: runs a program and traces it; `emulator_loop` is its compiled loop, `emulator_float` the rarer floating-point and
  control instructions, `exact_float` IEEE 754 in integers, `machine_words` single machine instructions for compiled code.
- `trace`: what each executed instruction did, as plain arrays, and the .npz file; `trace_command`: the command that writes one.
- `recorded_retirement`: gem5's recorded retirements put beside a trace.
"""
