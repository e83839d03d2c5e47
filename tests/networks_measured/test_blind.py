"""What was read off a machine's own times is not known to a study that leaves these times out."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from analysis.errors import InputError
from analysis.networks.measured_fabrics import model as measured
from analysis.networks.measured_fabrics.model import Fabric, MeasuredMachine, link_of
from analysis.studies.networks import fit as measured_fit

SERIES = [
    ("A100", 2),
    ("A100", 8),
    ("B200", 8),
    ("B200-EFA", 32),
    ("H100", 2),
    ("H100", 4),
    ("H20", 4),
    ("H20", 8),
    ("H200", 8),
    ("H800", 8),
]


def table() -> pd.DataFrame:
    sizes = 2.0 ** np.arange(16, 30, 4)
    parts = [
        pd.DataFrame({"machine": machine, "origin": "made", "gpus": gpus, "size_bytes": sizes, "time_s": 1e-5 + sizes / 1e11})
        for machine, gpus in SERIES
    ]
    return pd.concat(parts, ignore_index=True)


def entries_read(monkeypatch: pytest.MonkeyPatch, blind: bool) -> list[tuple[str, Fabric]]:
    """(what is left out, entry read) over both leave-one-out schemes, with the solver replaced by its start."""
    read: list[tuple[str, Fabric]] = []
    scheme = {"left": ""}
    plain = MeasuredMachine.fabric

    def recording(self: MeasuredMachine, left_out: frozenset[str] = frozenset()) -> Fabric:
        found = plain(self, left_out)
        read.append((scheme["left"], found))
        return found

    class Start:
        def __init__(self, _function: object, start: np.ndarray, **_: object) -> None:
            self.x = start

    monkeypatch.setattr(MeasuredMachine, "fabric", recording)
    monkeypatch.setattr(measured_fit, "least_squares", Start)
    rows = table()
    for _, left, mask in measured_fit.splits(rows):
        scheme["left"] = left
        measured_fit.model("protocols", blind=blind)(rows[~mask], rows[mask])
    return read


def offences(read: list[tuple[str, Fabric]]) -> set[str]:
    """Left-out machines, or series of them, off whose times an entry was read."""
    return {left for left, entry in read for series in entry.measured_on if series == left or series.split(" x")[0] == left}


def test_no_left_out_machine_tells_the_fit_of_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    assert offences(entries_read(monkeypatch, blind=True)) == set()


def test_the_check_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule the H100's mesh is read off the two H100 that are left out."""
    assert {"H100", "H100 x2"} <= offences(entries_read(monkeypatch, blind=False))


def test_an_h100_that_nobody_timed_has_a_switch() -> None:
    assert link_of("H100", 2).bandwidth_bytes_per_s == pytest.approx(450e9 / 3)
    assert link_of("H100", 2, frozenset({"H100 x2"})).bandwidth_bytes_per_s == pytest.approx(450e9)
    assert link_of("H200", 8, frozenset({"H200 x4", "H200 x5"})).algorithm == "nvls"  # from the H20's table


def test_a_source_says_its_kind_and_what_it_was_read_off() -> None:
    with pytest.raises(ValidationError, match="documented"):
        Fabric(fabric="switch", source="NVIDIA says so")
    with pytest.raises(ValidationError, match="measured_on"):
        Fabric(fabric="switch", source="measured: some table")
    with pytest.raises(ValidationError, match="measured_on"):
        Fabric(fabric="switch", source="documented: a page", measured_on=("H100 x2",))
    only = MeasuredMachine(device="X", known=(Fabric(fabric="mesh", source="measured: a table", measured_on=("X x2",)),))
    with pytest.raises(InputError, match="nothing is known"):
        only.fabric(frozenset({"X x2"}))


def test_every_machine_has_an_entry_that_its_own_times_did_not_give() -> None:
    for name, machine in measured.machines().items():
        own = frozenset(series for entry in machine.known for series in entry.measured_on if series.split(" x")[0] == name)
        assert not own & set(machine.fabric(own).measured_on)
