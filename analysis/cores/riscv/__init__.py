"""What does a RISC-V program do? From a source to an instruction trace, in this order:

- `bit_manipulation`: Bit manipulation:
- `decode`: What does an RV64IMAFDC (Zicsr, Zifencei, Zba, Zbb, Zbs) encoding say:
- `elf`: What is in a static RISC-V Linux executable:
- `emulator`: What does a RISC-V program do, instruction by instruction:
- `emulator_float`: The floating-point and control-register instructions that the compiled loop does not do inline
- `emulator_loop`: The emulator's compiled loop:
- `exact_float`: Floating-point arithmetic in integers:
- `linux`: The part of Linux that a static program needs:
- `machine_words`: One machine instruction each, for compiled code:
- `operations`: The emulator's operations:
- `trace`: What did each executed instruction do:
"""
