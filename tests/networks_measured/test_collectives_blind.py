"""The collectives' formula: nothing of a machine that is left out reaches its answer; the committed parameters are the tables'."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.configs import read_yaml
from analysis.networks.calibrated import form
from analysis.paths import DATA
from analysis.studies import datasets
from analysis.studies.networks import fit, freeze, series

NEEDED = ("pipeweave/collective/A100_all_reduce", series.NCCL_TESTS)
here = pytest.mark.skipif(
    not all(map(datasets.available, NEEDED)), reason="needs PipeWeave's tables (make data) and those of nccl-tests (studies/datasets.py)"
)


def made(source: str, device: str, gpus: int, nodes: int = 1, network: float = np.nan) -> pd.DataFrame:
    """A machine that the formula describes exactly."""
    size = np.geomspace(2**16, 2**33, 18)
    rows = pd.DataFrame({
        "source": source, "device": device, "kind": "all_reduce", "gpus": gpus, "nodes": nodes, "network_bytes_per_s": network,
        "graph": False, "size_bytes": size, "time_s": 1.0,
    })  # fmt: skip
    x = fit.features(rows)
    return rows.assign(time_s=fit.predict(fit.Solution(dict(fit._CENTRE), {}, {}, {}), x)[0])


MADE = [
    made("one", "H100-SXM5-80GB", 8), made("two", "H100-SXM5-80GB", 8), made("three", "A100-SXM4-80GB", 8),
    made("four", "H100-SXM5-80GB", 16, 2, 50e9), made("five", "A100-SXM4-80GB", 16, 2, 25e9),
]  # fmt: skip


def test_a_left_out_machine_teaches_nothing() -> None:
    """Ten times as slow, it is answered by the same time."""
    rows = pd.concat(MADE, ignore_index=True)
    changed = rows.assign(time_s=np.where(rows["source"] == "two", 10 * rows["time_s"], rows["time_s"]))
    for device_too in (False, True):
        first, second = (fit.left_out(each, "two", device_too)["predicted_s"].to_numpy() for each in (rows, changed))
        assert first == pytest.approx(second, rel=1e-12)
    kept = fit.left_out(changed, "one")["predicted_s"].to_numpy()
    assert not np.allclose(kept, fit.left_out(rows, "one")["predicted_s"].to_numpy(), rtol=0.01)


def test_the_fit_recovers_what_made_the_rows() -> None:
    solution = fit.solve(pd.concat(MADE, ignore_index=True))
    for name, values in fit._CENTRE.items():
        assert solution.common[name] == pytest.approx(values, abs=0.02), name


def test_a_board_that_only_its_own_times_tell_is_unknown_when_they_are_left_out() -> None:
    """Two of PipeWeave's four H100 reach a third of NVLink's 450 GB/s; who leaves them out has the documented switch."""
    told, blind = (fit.machine_of("H100-SXM5-80GB", "H100 pipeweave", 2, 1, np.nan, blind) for blind in (False, True))
    assert told.group(2).bandwidth_bytes_per_s == pytest.approx(150e9) and blind.group(2).bandwidth_bytes_per_s == 450e9


def test_roles_and_rows_are_those_of_the_split() -> None:
    import yaml

    split = yaml.safe_load((DATA / "evaluation" / "collectives_split.yaml").read_text())
    machines = {name for names in split["roles"].values() for name in names} - {"nine_types", "tables"}
    summary = pd.read_csv(DATA / "frozen" / "nccl_calibrated" / "collectives.csv")
    assert machines == {name for name in summary["source"] if " " not in name}
    quoted = summary[(summary["split"] == "machine") & (summary["source"] == "all of nccl-tests")].set_index("place")
    assert quoted.loc["node", "median_error"] <= 0.12 and quoted.loc["network", "median_error"] <= 0.25
    assert quoted["inside"].between(0.85, 1.0).all() and (quoted["width"] <= 2.2).all()


@here
def test_committed_parameters_are_those_of_the_tables() -> None:
    rows = freeze.measured()
    kept, again = form.calibrated(), fit.parameters(fit.solve(rows), rows)
    assert kept.hashes == series.hashes()
    assert again.efficiency == pytest.approx(kept.shipped.efficiency, rel=1e-3) and again.floor_s == pytest.approx(
        kept.shipped.floor_s, rel=1e-3
    )
    assert read_yaml(DATA / "models" / "nccl_collectives.yaml", form.Calibrated) == kept
