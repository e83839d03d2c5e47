"""`in_one_piece`: no call below it asks the operating system for memory, however deep it stands."""

from __future__ import annotations

import threading

import pytest

from analysis.call_stack import in_one_piece

resource = pytest.importorskip("resource", reason="counts page faults, which this system does not tell")


def _nothing() -> None:
    pass


def _faults(deeper: int) -> int:
    """Page faults of a thousand calls that stand so many calls deep."""
    if deeper:
        return _faults(deeper - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(1000):
        _nothing()
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def _most() -> int:
    return max(_faults(depth) for depth in range(400))


def test_no_depth_is_slow() -> None:
    """Each of 400 depths; a thread has a stack of its own, as a new process has."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(in_one_piece(_most)))
    thread.start()
    thread.join()
    assert found[0] < 100


def test_result_arguments_and_errors_are_the_function_s() -> None:
    """It is a call like any other."""
    assert in_one_piece(divmod, 7, 2) == (3, 1)
    assert in_one_piece(dict, a=1) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        in_one_piece(divmod, 1, 0)
