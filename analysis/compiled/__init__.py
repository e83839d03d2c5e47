"""Functions compiled by numba: each becomes machine code once, and small inputs are answered in plain Python.

`dispatchers` has the two decorators, `outer` for what Python calls and `inner` for what only compiled code calls, and their cache;
`plain_python` runs the same functions uncompiled; `numba_patches` replaces what makes numba's compilation slow.
"""

from analysis.compiled import numba_patches  # noqa: F401 (takes effect when it is imported)
from analysis.compiled.dispatchers import inner, outer

__all__ = ["inner", "outer"]
