"""A trace of PyTorch's profiler: shapes become the rows that `kernels predict` answers; what is no trace is refused in a line.

The events have the form that PyTorch writes (kineto, output_json.cpp; the example profile in pytorch/test/inductor/test_analysis.py).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_here

from analysis import face
from analysis.__main__ import main
from analysis.errors import InputError
from analysis.kernels.profiler_trace import device_of, kernels, read, summary
from analysis.paths import DATA, EXAMPLES
from tests.golden import answer, kept

GPU = "H100-SXM5-80GB"


def operator(number: int, name: str, dims: list[list[int]], kind: str = "c10::BFloat16", **more: Any) -> dict[str, Any]:
    arguments = {"External id": number, "Input Dims": dims, "Input type": [kind if each else "Scalar" for each in dims], **more}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": 1.0, "dur": 9.0, "args": arguments}


def kernel(number: int, dur: float, name: str = "k", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 2.0, "dur": dur, "args": {"External id": number, **more}}


def table(*events: dict[str, Any]) -> Any:
    return kernels({"traceEvents": list(events)}, GPU)


@pytest.mark.parametrize(
    ("name", "dims", "sizes"),
    [
        ("aten::mm", [[512, 4096], [4096, 1024]], (512, 1024, 4096)),
        ("aten::addmm", [[1000], [64, 2048], [2048, 1000], [], []], (64, 1000, 2048)),  # PyTorch's own example has 1 x 2048 by 2048 x 1000
        ("aten::bmm", [[8, 128, 256], [8, 256, 64]], (8 * 128, 64, 256)),
        ("aten::baddbmm", [[8, 128, 64], [8, 128, 256], [8, 256, 64]], (8 * 128, 64, 256)),
    ],
)
def test_products_are_those_of_kernels_predict(name: str, dims: list[list[int]], sizes: tuple[int, int, int]) -> None:
    row = table(operator(3, name, dims), kernel(3, 50.0)).iloc[0]
    asked = {"op": "gemm", "dtype": "bf16", "device": GPU, **dict(zip("MNK", sizes, strict=True))}
    answer = face.predict_kernels(asked).iloc[0]
    assert (row["predicted_us"], row["upper_us"]) == (1e3 * answer["latency_ms"], 1e3 * answer["upper_ms"])
    assert row["flop"] == 2 * sizes[0] * sizes[1] * sizes[2]
    assert row["ratio"] == 50.0 / row["predicted_us"]


def test_attention_has_its_heads_and_tokens_in_the_operators_order() -> None:
    """PyTorch's own operator has heads before tokens, the library's tokens before heads; one query is a decode step."""
    asked = {"op": "attention_prefill", "dtype": "bf16", "device": GPU, "batch": 2, "query_heads": 32, "kv_heads": 8, "head_size": 128}
    answer = face.predict_kernels({**asked, "query_tokens": 1024, "kv_tokens": 1024}).iloc[0]["latency_ms"] * 1e3
    torch = operator(1, "aten::_scaled_dot_product_flash_attention", [[2, 32, 1024, 128], *[[2, 8, 1024, 128]] * 2])
    library = operator(1, "aten::_flash_attention_forward", [[2, 1024, 32, 128], *[[2, 1024, 8, 128]] * 2])
    assert table(torch, kernel(1, 9.0)).iloc[0]["predicted_us"] == table(library, kernel(1, 9.0)).iloc[0]["predicted_us"] == answer
    one = operator(1, "aten::_scaled_dot_product_flash_attention", [[2, 32, 1, 128], *[[2, 8, 4096, 128]] * 2])
    decode = face.predict_kernels({**asked, "op": "attention_decode", "kv_tokens": 4096}).iloc[0]["latency_ms"] * 1e3
    assert table(one, kernel(1, 9.0)).iloc[0]["predicted_us"] == decode
    concrete = ["", "", "", "0.", "False", "False", ""]
    every = operator(1, "aten::_scaled_dot_product_flash_attention", [[2, 32, 64, 128]] * 3, **{"Concrete Inputs": concrete})
    assert "causal" in table(every, kernel(1, 9.0)).iloc[0]["status"]


def test_collectives_count_bytes_as_nccl_does() -> None:
    """An all-gather's size is what comes out of it; an all-reduce's what goes in."""
    common = {"Group size": 8, "dtype": "BFloat16", "In msg nelems": 1 << 20, "Out msg nelems": 8 << 20}
    for name, op, size in (("allreduce", "all_reduce", 2 << 20), ("_allgather_base", "all_gather", 16 << 20)):
        row = table(kernel(5, 9.0, "ncclDevKernel", **{"Collective name": name}, **common)).iloc[0]
        asked = {"op": op, "bytes": size, "devices": 8, "device": GPU}
        assert row["predicted_us"] == 1e3 * face.predict_kernels(asked).iloc[0]["latency_ms"]


def test_kernels_of_one_call_are_added_and_calls_averaged() -> None:
    product = [[512, 4096], [4096, 1024]]
    found = table(
        operator(1, "aten::mm", product), kernel(1, 40.0, "main"), kernel(1, 2.0, "reduce"),
        operator(2, "aten::mm", product), kernel(2, 50.0, "main"), kernel(2, 4.0, "reduce"), kernel(77, 52.0, "alone"),
    )  # fmt: skip
    assert found[["kernel", "count", "measured_us"]].to_numpy().tolist() == [["main + reduce", 2, 48.0], ["alone", 1, 52.0]]
    assert found["share_percent"].tolist() == pytest.approx([100 * 96 / 148, 100 * 52 / 148])
    assert "no shapes" in found["status"][1]


def test_other_operators_take_at_least_the_reading_of_their_inputs() -> None:
    """67 million values of 2 bytes and as many again, at no more than 3.35 TB/s: at least 80 us; no upper end."""
    row = table(operator(1, "aten::add", [[8192, 8192], [8192, 8192], []]), kernel(1, 200.0)).iloc[0]
    assert row["predicted_us"] >= 2 * 2 * 8192**2 / 3.35e12 * 1e6 and row["upper_us"] != row["upper_us"]
    assert row["bytes"] == 2 * 2 * 8192**2 and "lower bound" in row["basis"]


def test_a_packed_trace_names_its_gpu(tmp_path: Path) -> None:
    (tmp_path / "t.json.gz").write_bytes(gzip.compress((EXAMPLES / "kernels" / "profile.json").read_bytes()))
    trace = read(tmp_path / "t.json.gz")
    assert device_of(trace, "t") == GPU
    done = run_here("kernels", "profile", str(tmp_path / "t.json.gz"), "--plot", str(tmp_path / "p.png"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["operator"] == "aten::mm" and (tmp_path / "p.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "no trace of PyTorch's profiler"),
        ('{"traceEvents": {}}', "expected an object with a list"),
        ('{"traceEvents": [{"name": "x", "cat": "cpu_op"}]}', "names no GPU"),
        ('{"deviceProperties": [{"name": "NVIDIA Z9"}], "traceEvents": []}', "Z9"),
        ('{"deviceProperties": [{"name": "NVIDIA H100"}], "traceEvents": [1, {"name": 3}]}', "holds no kernel"),
    ],
)
def test_what_is_no_trace_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(InputError, match=message):
        trace = read(tmp_path / "t.json")
        kernels(trace, device_of(trace, tmp_path / "t.json"), tmp_path / "t.json")
    done = run_here("kernels", "profile", str(tmp_path / "t.json"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_every_kind_of_event() -> None:
    """Counts, sizes and words of every kind of event; predictions are those of `kernels predict` (above) and stay out."""
    half, flash = "c10::Half", "aten::_scaled_dot_product_flash_attention"
    asked = {
        "no work": [operator(1, "aten::mm", [[3, 5], [5, 7]]), {**kernel(1, 9.0), "cat": "cpu_op"}],
        "times": [kernel(k, time) for k, time in enumerate((True, -1.0, 1e12, "3", None, 0, 999999999999.0))],  # type: ignore[arg-type]
        "copies": [{**kernel(1, 2.5), "cat": "gpu_memcpy"}, {**kernel(2, 3.5), "cat": "gpu_memset", "name": "n" * 300}],
        "number": [operator(1, "aten::mm", [[3, 5], [5, 7]]), kernel("1", 2.0), {**kernel(1, 2.0), "args": None}],  # type: ignore[arg-type]
        **{
            f"{name} {dims}": [operator(1, f"aten::{name}", dims, half), kernel(1, 2.0)]
            for name, dims in (
                ("mv", [[3, 5], [5]]),
                ("addmv", [[3], [3, 5], [5]]),
                ("mm", [[3, 0], [0, 7]]),
                ("mm", [[3, 5]]),
                ("mm", [[3], [3]]),
                ("_scaled_mm", [[3, 5], [5, 7]]),
                ("bmm", [[2, 3, 5], [2, 5, 7]]),
                ("mm", [[3, -5], [5, 7]]),
                ("mm", [[1 << 47, 2], [2, 2]]),
                ("mm", [[3, 5], []]),
                ("add", [[3, 5], [], [7]]),
                ("relu", []),
                ("_flash_attention_forward", [[2, 3, 4, 64]] * 3),
                ("_flash_attention_forward", [[2, 1, 4, 64], [2, 9, 2, 64]]),
                ("_flash_attention_forward", [[2, 3, 4], [2, 3, 4]]),
            )
        },
        **{
            f"type {kind}": [
                operator(1, "aten::mm", [[3, 5], [5, 7]], kind),
                operator(2, "aten::abs", [[11]], kind),
                kernel(1, 2.0),
                kernel(2, 1.0),
            ]
            for kind in ("float", "double", "c10::Float8_e4m3fn", "c10::Float8_e5m2", "signed char", "long int", "bool", "odd")
        },
        "causal": [operator(1, flash, [[2, 4, 8, 64]] * 3, **{"Concrete Inputs": ["", "", "", "", "True"]}), kernel(1, 2.0)],
        "not causal, one token": [
            operator(1, flash, [[2, 4, 1, 64]] * 3, **{"Concrete Inputs": ["", "", "", "", "False"]}),
            kernel(1, 2.0),
        ],
        "not causal": [operator(1, flash, [[2, 4, 2, 64]] * 3, **{"Concrete Inputs": ["", "", "", "", "False"]}), kernel(1, 2.0)],
        **{
            f"{name} {more}": [
                kernel(
                    1,
                    2.0,
                    **{"Collective name": name, "Group size": 4, "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 40, **more},
                )
            ]
            for name, more in (
                ("allreduce", {}),
                ("_allgather_base", {}),
                ("reduce_scatter", {}),
                ("all_to_allv", {}),
                ("broadcast", {}),
                ("allreduce", {"Group size": 1}),
                ("allreduce", {"Group size": 2}),
                ("allreduce", {"Group size": 1 << 20}),
                ("allreduce", {"In msg nelems": 1 << 48}),
                ("allreduce", {"In msg nelems": "9"}),
                ("allgather", {"Out msg nelems": "9"}),
                ("allreduce", {"dtype": "?"}),
            )
        },
    }
    left_out = ["predicted_us", "lower_us", "upper_us", "ratio"]
    found = {name: answer(lambda events=events: table(*events).drop(columns=left_out).to_dict("records")) for name, events in asked.items()}  # type: ignore[misc]
    drawn = table(*asked["copies"], *asked["add [[3, 5], [], [7]]"], *(kernel(k, 1.0 + k, f"k{k}") for k in range(50, 65)))
    drawn[["predicted_us", "lower_us", "upper_us"]] = drawn[["predicted_us", "lower_us", "upper_us"]].where(
        drawn["predicted_us"].isna(), 7.0
    )
    found["summary"] = [
        summary(drawn, GPU).split("\n"),
        summary(drawn, GPU, len(drawn)).split("\n")[-1],
    ]
    kept("events", found)


def test_a_real_step_lies_within_the_intervals_of_its_products_and_attention() -> None:
    """One training step of Llama 3.2 1B on an H200, 4,096 tokens, recorded by this project (data/recorded/h200_own/measure.py)."""
    path = DATA / "recorded" / "h200_own" / "step.json.gz"
    trace = read(path)
    found = kernels(trace, device_of(trace, path), path).set_index("operator")
    assert (found["count"] * found["measured_us"]).sum() == pytest.approx(108_532, rel=1e-4)  # the profiler's own kernel total
    products = found.loc["aten::mm"]
    inside = (products["lower_us"] <= products["measured_us"]) & (products["measured_us"] <= products["upper_us"])
    assert len(products) == 15 and (products["count"] * inside).sum() >= 0.9 * products["count"].sum()
    attention = found.loc["aten::_cudnn_attention_forward"]
    assert attention["lower_us"] <= attention["measured_us"] <= attention["upper_us"]
    assert attention["measured_us"] == pytest.approx(183.8, abs=0.1) and attention["count"] == 16


def test_another_gpu_than_the_trace_s_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """data/recorded/h200_own/step.json.gz is of an H200."""
    trace = str(DATA / "recorded" / "h200_own" / "step.json.gz")
    assert main(["kernels", "profile", trace, "--device", "a100"]) == 0
    assert "calls on H200-SXM5-141GB (predicted for A100-SXM4-80GB), " in capsys.readouterr().out
    assert main(["kernels", "profile", trace, "--device", "h200"]) == 0
    assert "calls on H200-SXM5-141GB, " in capsys.readouterr().out
