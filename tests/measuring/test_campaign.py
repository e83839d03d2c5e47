"""A campaign with a device that only pretends: which tables it writes, what it refuses, how it fails. Nothing here is timed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import run_analysis

from analysis.artifact.measuring import campaign
from analysis.artifact.measuring.devices import MeasuredDevice, choose_cores, default_devices, parse
from analysis.artifact.measuring.folder import CAMPAIGN, quiet, read, read_facts
from analysis.artifact.measuring.graphs import resnet50
from analysis.artifact.measuring.operators import MeasuredOperator
from analysis.artifact.measuring.session import Session
from analysis.artifact.measuring.suites import ModelRun, Suite
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.tables import read_csv

DEVICE = MeasuredDevice("jax", 1, "fp32")
OPERATORS = (MeasuredOperator("gemm", (4, 4, 4)), MeasuredOperator("softmax", (1, 2, 3)))
MODELS = (ModelRun("resnet50", {"side": 32}),)


class Pretended:
    """Answers as a worker would: a millisecond for everything; the second attempt is quieter."""

    def __init__(self, device: MeasuredDevice, cores: tuple[int, ...]) -> None:
        self.device, self.cores, self.facts = device, cores, {"platform": "cpu", "accelerator": ""}
        self.asked: list[str] = []

    def ask(self, request: dict[str, Any], what: str) -> dict[str, Any]:
        self.asked.append(what)
        if what.startswith("softmax"):
            return {"unsupported": "no softmax here"}
        spread = 0.9 if self.asked.count(what) == 1 else 0.1
        timing = dict.fromkeys(["median_s", "p10_s", "p90_s", "minimum_s"], 0.001234567) | {"mad_s": 1e-6, "samples": 5, "calls": 1}
        return {**timing, "spread": spread, "control_arithmetic_s": 5e-5, "control_copy_s": 3e-4}

    def close(self) -> None:
        self.asked.append("closed")


def _folder(out: Path, **facts: Any) -> Path:
    result = campaign.measure_suite(Suite(OPERATORS, MODELS, 0.01), [DEVICE], (0,), "quick", start=Pretended)  # type: ignore[arg-type]
    result.facts.update(facts)
    campaign.write(result, out)
    return out


def test_tables_say_what_was_measured(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    measured = read(folder)
    assert measured.measurements["operator"].tolist() == ["gemm m=4 n=4 k=4"]
    row = measured.measurements.iloc[0]
    assert (row["median_s"], row["spread"], row["attempts"]) == (0.0012346, 0.1, 2)  # five digits; the quieter of two attempts
    nodes = read_csv(folder / "nodes.csv")
    assert nodes["count"].sum() == len(resnet50(32).nodes)  # every node of the model, its operators once each
    assert nodes["operator"].is_unique
    operators = read_csv(folder / "operators.csv")
    assert set(nodes["operator"]) | set(measured.measurements["operator"]) <= set(operators["operator"])
    assert operators.set_index("operator")["traffic_elements"]["gemm m=4 n=4 k=4"] == 3 * 16
    assert read_csv(folder / "unsupported.csv")["unsupported"].tolist() == ["no softmax here"]
    facts = read_facts(folder)
    assert facts["devices"]["jax-1t-fp32"]["cores"] == [0]
    assert facts["noise"]["jax-1t-fp32"]["spread_median"] == 0.1
    assert {"cpu", "caches", "governor", "versions", "logical_cores"} <= set(facts["machine"])


def test_noise_by_hand() -> None:
    frame = pd.DataFrame({"spread": [0.1, 0.2, 0.6], "control_arithmetic_s": [1.0, 1.0, 1.0], "control_copy_s": [1.0, 2.0, 3.0]})
    found = campaign.noise(frame)
    assert found["spread_median"] == 0.2 and found["spread_p95"] == pytest.approx(0.56)  # 0.2 + 0.9 x 0.4
    assert found["control_arithmetic_drift"] == 0
    assert found["control_copy_drift"] == pytest.approx(0.9)  # (2.9 - 1.1) / 2
    assert len(quiet(frame, 0.5)) == 2


def test_nothing_measured_is_no_result() -> None:
    late = Suite(OPERATORS, MODELS, 0.01, limit_s=0)
    with pytest.raises(InputError, match="nothing was measured"):
        campaign.measure_suite(late, [DEVICE], (0,), "quick", start=Pretended)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", ["{", "{}", "[]", None])
def test_folders_that_are_not_the_kits(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "machine.json").write_text(content)
    with pytest.raises(InputError, match=r"machine\.json"):
        read(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read(tmp_path / "missing")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import sys; sys.exit('the library is broken')", "the library is broken"),
        ("raise ImportError('libfast.so: no such file')", "ImportError: libfast.so: no such file"),
        ("print('not an answer')", "exit status"),
        ("import os; os.abort()", "starting"),
    ],
)
def test_a_process_that_fails_is_one_clear_line(program: str, expected: str) -> None:
    with pytest.raises(InputError, match="stopped at starting") as error:
        Session(DEVICE, (0,), (sys.executable, "-c", program))
    assert str(error.value).startswith("jax-1t-fp32: ") and expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_process_that_fails_later_names_the_operator() -> None:
    program = "import sys; print('{\"ready\": {}}', flush=True); sys.stdin.readline(); sys.exit('out of memory')"
    session = Session(DEVICE, (0,), (sys.executable, "-c", program))
    with pytest.raises(InputError, match=r"stopped at gemm m=4: out of memory"):
        session.ask({"operator": []}, "gemm m=4")


@pytest.mark.parametrize("name", ["jax-1t-fp32", "numpy-2t-fp32", "onnxruntime-1t-fp32", "jax-1t-bf16"])
def test_device_names(name: str) -> None:
    assert parse(name).name == name


@pytest.mark.parametrize(
    "name", ["jax", "jax-1t", "jax-0t-fp32", "numpy-1t-bf16", "tf-1t-fp32", "jax-gpu-bf16", "numpy-gpu-fp32", "jax-t-fp32", ""]
)
def test_devices_that_there_are_not(name: str) -> None:
    with pytest.raises(InputError, match="no device"):
        parse(name)


def test_threads_are_pinned_and_counted() -> None:
    usable = tuple(sorted(os.sched_getaffinity(0)))
    assert choose_cores([DEVICE]) == usable[-1:]
    environment = parse("numpy-2t-fp32").environment((0, 1))
    assert {environment[key] for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")} == {"2"}
    with pytest.raises(InputError, match="cores"):
        choose_cores([MeasuredDevice("numpy", 10_000, "fp32")])
    with pytest.raises(InputError, match="may use"):
        choose_cores([DEVICE], (99_999,))
    assert [device.name for device in default_devices()][:4] == ["jax-1t-fp32", "jax-1t-bf16", "onnxruntime-1t-fp32", "numpy-1t-fp32"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--suite", "medium"), "--suite"),
        (("--devices", "gpu"), "--devices"),
        (("--cores", "one"), "--cores"),
        (("--only", "everything"), "--only"),
        (("--out", "pyproject.toml"), "pyproject.toml: --out: is a file"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments: tuple[str, ...], expected: str) -> None:
    done = run_analysis("measure", *arguments)
    assert done.returncode == 2 and expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_worker_measures_what_it_is_asked(tmp_path: Path) -> None:
    """The whole path with real processes, a few operators on the lightest device; nothing is said about how long they take."""
    done = run_analysis(
        "measure", "--suite", "quick", "--only", "operators", "--stride", "10", "--devices", "numpy-1t-fp32", "--out", str(tmp_path / "m")
    )
    assert done.returncode == 0, done.stderr
    assert "spread of a row" in done.stdout and "control drifted" in done.stdout
    measured = read(tmp_path / "m")
    assert (measured.measurements["median_s"] > 0).all()
    assert measured.facts["devices"]["numpy-1t-fp32"]["cores"] == [sorted(os.sched_getaffinity(0))[-1]]


def test_the_committed_campaign_is_what_it_says() -> None:
    # The issue asks for at least 1,500 operator shapes on several devices.
    one = read(CAMPAIGN / "one_thread")
    assert one.measurements.groupby("operator")["device"].nunique().ge(3).sum() >= 1500
    for part in ("one_thread", "two_threads", "models"):
        facts = read_facts(CAMPAIGN / part)
        assert facts["kit_version"] == campaign.KIT_VERSION and set(facts["noise"]) == set(facts["devices"])


@pytest.mark.parametrize(("folder", "threads"), [("one_thread", 1), ("two_threads", 2)])
def test_the_cpus_of_the_device_table_are_the_measured_ones(folder: str, threads: int) -> None:
    """data/hardware/devices/cpu.yaml quotes peaks.csv: the best product and the best triad, rounded to a tenth of a unit of 1e9."""
    peaks = read_csv(CAMPAIGN / folder / "peaks.csv").set_index("kernel")
    device = devices.load(f"cpu-epyc-25-17-{threads}t")
    best = peaks["amount"] / peaks["minimum_s"]
    assert device.peak_flop_per_s("fp32") == pytest.approx(best["product"], abs=0.06e9)
    assert device.memory_bandwidth_bytes_per_s == pytest.approx(best["triad"], abs=0.06e9)
    assert device.sm_count == threads
