"""Which extension does an encoding belong to that is not emulated? For the message that refuses it.

Source: RISC-V unprivileged specification (2025-05), instruction listings; V, Zfh, Zbc, Zicond, Zicbom.
"""

from __future__ import annotations

SUPPORTED = "RV64GC (I, M, A, F, D, C, Zicsr, Zifencei) with Zba, Zbb and Zbs"

_REGISTER = {  # OP: (funct7, funct3)
    **dict.fromkeys(((0x05, 1), (0x05, 2), (0x05, 3)), "Zbc"),
    **dict.fromkeys(((0x07, 5), (0x07, 7)), "Zicond"),
}


def extension(word: int) -> str:
    """Name of the extension of a 32-bit encoding; empty where it is none of those above."""
    opcode, funct3, funct7 = word & 0x7F, word >> 12 & 7, word >> 25
    if opcode == 0x57 or (opcode in (0x07, 0x27) and funct3 in (0, 5, 6, 7)):
        return "V (vectors)"
    if opcode in (0x07, 0x27) and funct3 == 1:
        return "Zfh (16-bit floating point)"
    if opcode in (0x43, 0x47, 0x4B, 0x4F, 0x53):
        half = word >> 25 & 3 == 2 or (opcode == 0x53 and funct7 >> 2 == 0x08 and word >> 20 & 31 == 2)
        return "Zfh (16-bit floating point)" if half else "Q (128-bit floating point)" if word >> 25 & 3 == 3 else ""
    if opcode == 0x0F and funct3 == 2:
        return "Zicbom or Zicboz (cache blocks)"
    return _REGISTER.get((funct7, funct3), "") if opcode == 0x33 else ""
