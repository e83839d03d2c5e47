"""What do our files of core designs say: the same as NeuroScalar's Table 4?"""

from __future__ import annotations

from functools import reduce

from analysis.cores.designs import load_design


def design_value(design: str, key: str, divide: int = 1) -> float:
    """One value of a design of `data/cores/designs`.

    Args:
        design: name, such as 8w.
        key: its name in the file, with dots, such as l1d.size_bytes.
        divide: for a prefix, such as 1024.
    """
    value = reduce(getattr, key.split("."), load_design(design))
    return float(value) / divide  # type: ignore[arg-type]
