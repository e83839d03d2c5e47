"""`kernels predict` on kernels of today's GPUs: rows are kept, types not covered refused, own cards answered from their data sheet."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.commands.models.kernels import app
from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.kernels.cases import SIZES, _floor_s, _nine_digits, answers, check_columns
from analysis.kernels.library import KernelLibrary
from tests.golden import kept

RUN = CliRunner()
HEADER = (
    "op,device,dtype,M,N,K,batch,query_heads,kv_heads,head_size,query_tokens,kv_tokens,"
    "tokens,experts,top_k,hidden,intermediate,bytes,devices\n"
)
CASES = (
    HEADER
    + """\
gemm,h100_sxm,bf16,1,4096,4096,,,,,,,,,,,,,
gemm,H20,fp8,1,4096,4096,,,,,,,,,,,,,
gemm,h100_sxm,nvfp4,1,4096,4096,,,,,,,,,,,,,
gemm,h100_sxm,,1,4096,4096,,,,,,,,,,,,,
gemm,h100_sxm,bf16,1.5,4096,4096,,,,,,,,,,,,,
attention_decode,b200_sxm,bf16,,,,8,32,8,128,,2048,,,,,,,
attention_prefill,l40s,bf16,,,,1,32,8,128,512,512,,,,,,,
moe,h200_sxm,bf16,,,,,,,,,,64,128,8,2048,768,,
all_reduce,h100_sxm,,,,,,,,,,,,,,,,1048576,8
linear,NVIDIA L4,bf16,64,64,64,,,,,,,,,,,,,
gemm,nowhere,bf16,1,1,1,,,,,,,,,,,,,
"""
)


def test_a_mixed_file(tmp_path):
    path, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    path.write_text(CASES)
    assert RUN.invoke(app, ["predict", str(path), "--out", str(out)]).exit_code == 0
    got = pd.read_csv(out, keep_default_na=False)
    assert got["op"].tolist() == pd.read_csv(path)["op"].tolist()
    answered = got["latency_ms"] != ""
    assert answered.tolist() == [True, True, False, False, False, True, True, True, True, False, False]
    one = got[answered].astype(dict.fromkeys(("latency_ms", "lower_ms", "upper_ms"), float))
    assert (one["lower_ms"] <= one["latency_ms"]).all() and (one["latency_ms"] <= one["upper_ms"]).all()
    whose = "; median of sglang, trtllm, vllm, since no engine is named"
    assert got["source"].tolist()[:2] == ["measured gpu" + whose, "unmeasured gpu" + whose]
    assert "no nvfp4 rate" in got["status"][2] and "needs a precision" in got["status"][3] and "whole number" in got["status"][4]
    assert "fp32 only, not in bf16" in got["status"][9] and "not known" in got["status"][10]


def test_an_engine_is_named_as_elsewhere(tmp_path):
    path, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    path.write_text(
        "op,device,precision,M,N,K,engine\n"
        + "".join(f"gemm,h100,bf16,64,4096,1024,{name}\n" for name in ("vllm", "vLLM", "tgi", "TensorRT-LLM", "trtllm"))
    )
    assert RUN.invoke(app, ["predict", str(path), "--out", str(out)]).exit_code == 0
    got = pd.read_csv(out, keep_default_na=False)
    assert got["latency_ms"][0] == got["latency_ms"][1] != "" and got["source"][0] == got["source"][1]
    assert got["status"][2] == "engine: no engine 'tgi'; expected one of sglang, trtllm, vllm"
    assert got["latency_ms"][3] == got["latency_ms"][4] != "" and got["source"][3] == got["source"][4]


def test_status_two_where_nothing_is_answered(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("op,device,dtype,M,N,K\ngemm,h100_sxm,fp64,1,1,1\n")
    assert RUN.invoke(app, ["predict", str(path), "--out", str(tmp_path / "out.csv")]).exit_code == 2


def test_a_card_of_ones_own(tmp_path):
    path, out, spec = tmp_path / "cases.csv", tmp_path / "out.csv", tmp_path / "own.yaml"
    path.write_text("op,device,dtype,M,N,K\ngemm,OwnCard,bf16,4096,4096,4096\n")
    spec.write_text(
        "devices:\n  OwnCard:\n    vendor: NVIDIA\n    kind: gpu\n    architecture: hopper\n    memory_type: HBM3\n    source: h100\n"
        "    peak: {bf16: 500 TFLOP/s, fp32: 30 TFLOP/s}\n    memory: 80 GB\n    memory_bandwidth: 2 TB/s\n    sms: 100\n"
        "    clock: 1500 MHz\n    tdp: 400 W\n"
    )
    assert RUN.invoke(app, ["predict", str(path), "--out", str(out), "--device-spec", str(spec)]).exit_code == 0
    got = pd.read_csv(out)
    assert got["source"][0] == "unmeasured gpu; median of sglang, trtllm, vllm, since no engine is named"
    assert got["latency_ms"][0] > 1e3 * 2 * 4096**3 / 500e12  # the data sheet's rate


def test_a_version_that_was_not_timed_is_named(tmp_path):
    """The tables' newest vLLM answers for any other version, and `source` says which it was."""
    path, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    path.write_text(
        "op,device,dtype,M,N,K,framework,version\n"
        + "".join(f"gemm,h100_sxm,bf16,64,4096,4096,vllm,{v}\n" for v in ("0.9.1", "0.24.0", ""))
    )
    assert RUN.invoke(app, ["predict", str(path), "--out", str(out)]).exit_code == 0
    got = pd.read_csv(out)
    assert got["source"].tolist() == ["measured gpu, as timed with vllm 0.24.0", "measured gpu", "measured gpu"]
    assert got["latency_ms"].nunique() == 1


def predicted(tmp_path, rows):
    path, out = tmp_path / "floor.csv", tmp_path / "floor_out.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    RUN.invoke(app, ["predict", str(path), "--out", str(out)])
    return pd.read_csv(out)


def test_the_lower_end_is_not_faster_than_the_data_sheet(tmp_path):
    """2 x 16384^3 operations at 197 TFLOP/s (TPU v5e, bf16); 10 GB over 3.35 TB/s (H100), less what its 50 MB cache may hold."""
    got = predicted(
        tmp_path,
        [
            {"op": "gemm", "device": "tpu_v5e", "dtype": "bf16", "M": 16384, "N": 16384, "K": 16384},
            {"op": "memory_bound", "device": "h100_sxm", "bytes": 10e9},
            {"op": "attention_decode", "device": "MI300X", "dtype": "bf16", "batch": 64, "query_heads": 32, "kv_heads": 8,
             "head_size": 128, "kv_tokens": 65536},
        ],
    )  # fmt: skip
    cache = 64 * 65536 * 8 * 128 * 2 * 2
    least = [2 * 16384**3 / 197e12, (10e9 - 50e6) / 3.35e12, (cache - 256e6) / 5.3e12]
    for low, central, floor in zip(got["lower_ms"], got["latency_ms"], least, strict=True):
        assert 0.999e3 * floor <= low <= central


def test_operands_beyond_the_memory_and_misspelt_operators_have_a_reason(tmp_path):
    large = {"op": "gemm", "device": "h100_sxm", "dtype": "bf16", "M": 400_000, "N": 400_000, "K": 400_000}
    got = predicted(tmp_path, [large, {**large, "op": "gem"}, {**large, "device": "b300_sxm", "M": 8}, {**large, "M": 8, "N": 8}])
    assert "do not fit into" in got["status"][0] and "did you mean gemm?" in got["status"][1]
    assert "do not fit into" in got["status"][2] and got["latency_ms"].notna().tolist() == [False, False, False, True]


def test_fp16_is_answered_where_the_card_has_no_bf16(tmp_path):
    row = {"op": "gemm", "device": "V100", "dtype": "fp16", "M": 4096, "N": 4096, "K": 4096}
    got = predicted(tmp_path, [row, {**row, "dtype": "bf16"}, {**row, "dtype": "bf16", "framework": "vllm"}, {**row, "dtype": "fp32"}])
    assert got["lower_ms"][0] >= 0.999e3 * 2 * 4096**3 / 125e12
    # XLA and PyTorch run the product in fp32 (15.7 TFLOP/s of a V100, its data sheet), engines have no such kernel.
    assert got["latency_ms"][1] == got["latency_ms"][3] >= 0.999e3 * 2 * 4096**3 / 15.7e12
    assert "has no bf16 arithmetic: frameworks run it in fp32" in got["source"][1] and got["source"][1].startswith(got["source"][3])
    assert "no bf16 rate" in got["status"][2]


def test_a_product_reduces_what_it_reduces_in_either_model(tmp_path):
    """K is the reduced size: 8192 x 64 x 8192 writes 64 million numbers, 8192 x 8192 x 64 half a million; the fp32 models call it N."""
    sizes = [{"M": 8192, "N": 8192, "K": 64}, {"M": 8192, "N": 64, "K": 8192}]
    got = predicted(tmp_path, [{"op": "gemm", "device": "T4", "dtype": "bf16", **each} for each in sizes])
    written = 4 * 8192**2 / 320e9  # s at a T4's 320 GB/s
    assert got["latency_ms"][0] > 1e3 * written
    same = predicted(tmp_path, [{"op": "linear", "device": "T4", "M": 8192, "N": 64, "K": 8192}])
    assert got["latency_ms"][0] == same["latency_ms"][0]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"op": "attention_prefill", "query_tokens": "4096", "kv_tokens": "1024"}, "query_tokens above kv_tokens: cannot be"),
        ({"op": "latent_attention_prefill", "query_tokens": "4096", "kv_tokens": "1024"}, "query_tokens above kv_tokens: cannot be"),
        ({"op": "attention_decode", "query_heads": "30"}, "query_heads of attention_decode must be a multiple of kv_heads"),
        ({"op": "moe", "top_k": "16"}, "top_k above experts: cannot be"),
        ({"op": "moe", "expert_parallel": "3"}, "experts of moe must be a multiple of expert_parallel"),
        ({"op": "moe", "tensor_parallel": "3"}, "intermediate of moe must be a multiple of tensor_parallel"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(cells, reason):
    """A prompt of 4,096 queries on 1,024 keys, and sixteen of eight experts, were answered as measured."""
    attention = {"batch": "1", "query_heads": "32", "kv_heads": "8", "head_size": "128", "query_tokens": "512", "kv_tokens": "1024"}
    if cells["op"].startswith("latent"):
        attention = {"batch": "1", "query_heads": "128"}
    elif cells["op"] == "attention_decode":
        del attention["query_tokens"]
    experts = {"tokens": "128", "experts": "8", "top_k": "2", "hidden": "4096", "intermediate": "14336"}
    base = {"device": "h100_sxm", "dtype": "bf16", **(experts if cells["op"] == "moe" else attention)}
    good = cells if cells["op"].startswith("latent") else {"op": cells["op"]}
    right = answers(pd.DataFrame([{**base, **good, **({"query_tokens": "512"} if "latent" in cells["op"] else {})}]))
    assert right["status"][0] == "" and right["latency_ms"][0] > 0
    found = answers(pd.DataFrame([{**base, **cells}]))
    assert found["status"][0] == reason and found["latency_ms"].isna().all()


def test_a_card_keeps_its_bf16_where_it_has_one():
    """H100 has both 16-bit types at one rate, V100 (Volta white paper: 125 TFLOP/s of FP16 tensor cores) FP16 alone."""
    hopper, volta = (gpus.load(name) for name in ("h100_sxm", "V100-SXM2-32GB"))
    assert gpus.sixteen_bits(hopper) is hopper and "bf16" not in volta.peak_flop_per_s
    assert gpus.sixteen_bits(volta).peak_flop_per_s["bf16"] == volta.peak_flop_per_s["fp16"] == pytest.approx(125e12, rel=0.01)


ROWS: list[dict[str, object]] = [
    {"op": "gemm", "M": 7, "N": 4099, "K": 2053},
    {"op": "gemm", "M": 7, "N": 4099, "K": 2053, "framework": "sglang", "version": "0.0.1"},
    {"op": "gemm", "M": 0, "N": 1, "K": 1},
    {"op": "gemm", "M": 1, "N": 1, "K": 1},
    {"op": "gemm", "M": 1.5, "N": 1, "K": 1},
    {"op": "gemm", "M": "x", "N": 1, "K": 1},
    {"op": "gemm", "M": 1e15, "N": 1, "K": 1},
    {"op": "gemm", "M": 2e5, "N": 2e5, "K": 1},
    {"op": "gemm", "M": 1e5, "N": 1e5, "K": 1},
    {"op": "gemm", "M": 3, "N": 3},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "dtype": ""},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "dtype": "half"},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "window": 2},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "window": 1},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "distribution": "balanced"},
    {"op": "gemms", "M": 1, "N": 1, "K": 1},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "framework": "mine"},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "device": "V100"},
    {"op": "gemm", "M": 9, "N": 9, "K": 9, "device": "V100", "dtype": "fp16"},
    {
        "op": "attention_prefill",
        "batch": 3,
        "query_heads": 24,
        "kv_heads": 3,
        "head_size": 128,
        "query_tokens": 77,
        "kv_tokens": 501,
        "window": 100,
    },
    {"op": "attention_prefill", "batch": 3, "query_heads": 24, "head_size": 128, "query_tokens": 77},
    {"op": "attention_prefill", "batch": 3, "kv_heads": 24, "head_size": 128, "query_tokens": 77, "kv_tokens": 77},
    {"op": "attention_prefill", "batch": 3, "query_heads": 24, "kv_heads": 3, "head_size": 128, "query_tokens": 502, "kv_tokens": 501},
    {"op": "attention_prefill", "batch": 3, "query_heads": 25, "kv_heads": 3, "head_size": 128, "query_tokens": 5, "kv_tokens": 501},
    {
        "op": "attention_prefill",
        "batch": 99999,
        "query_heads": 24,
        "kv_heads": 3,
        "head_size": 128,
        "query_tokens": 77,
        "kv_tokens": 501,
        "kv_dtype": "fp8",
    },
    {"op": "attention_decode", "batch": 31, "query_heads": 24, "kv_heads": 3, "head_size": 128, "kv_tokens": 7001, "kv_dtype": "fp8"},
    {"op": "attention_decode", "batch": 31, "query_heads": 24, "kv_heads": 5, "head_size": 128, "kv_tokens": 7001},
    {"op": "attention_decode", "batch": 99999, "query_heads": 24, "kv_heads": 3, "head_size": 128, "kv_tokens": 7001},
    {"op": "latent_attention_prefill", "batch": 2, "query_heads": 20, "query_tokens": 7, "kv_tokens": 7},
    {"op": "latent_attention_prefill", "batch": 2, "query_heads": 20, "query_tokens": 8, "kv_tokens": 7},
    {"op": "latent_attention_decode", "batch": 31, "query_heads": 20, "kv_tokens": 7001},
    {"op": "latent_attention_decode", "batch": 1e6, "query_heads": 20, "kv_tokens": 7001},
    {
        "op": "moe",
        "tokens": 129,
        "experts": 48,
        "top_k": 5,
        "hidden": 1536,
        "intermediate": 384,
        "expert_parallel": 4,
        "tensor_parallel": 2,
        "distribution": "balanced",
    },
    {"op": "moe", "tokens": 129, "experts": 48, "top_k": 48, "hidden": 1536, "intermediate": 384},
    {"op": "moe", "tokens": 129, "experts": 48, "top_k": 49, "hidden": 1536, "intermediate": 384},
    {"op": "moe", "tokens": 129, "experts": 48, "top_k": 5, "hidden": 1536, "intermediate": 384, "expert_parallel": 5},
    {"op": "moe", "tokens": 129, "experts": 48, "top_k": 5, "hidden": 1536, "intermediate": 384, "tensor_parallel": 5},
    {"op": "moe", "tokens": 129, "experts": 4096, "top_k": 5, "hidden": 15360, "intermediate": 3840},
    {"op": "moe", "tokens": 129, "experts": 4096, "top_k": 5, "hidden": 15360, "intermediate": 3840, "expert_parallel": 64},
    {"op": "memory_bound", "bytes": 0, "dtype": ""},
    {"op": "memory_bound", "bytes": 1e9 + 7, "dtype": ""},
    {"op": "memory_bound", "bytes": -1, "dtype": ""},
    {"op": "memory_bound", "bytes": 1e9, "dtype": "", "M": 5},
    {"op": "all_reduce", "bytes": 70001, "devices": 8, "dtype": ""},
    {"op": "all_reduce", "bytes": 70001, "devices": 16, "dtype": "", "implementation": "custom"},
    {"op": "all_gather", "bytes": 0, "devices": 1, "dtype": ""},
    {"op": "all_reduce", "bytes": 70001, "devices": 0, "dtype": ""},
    {"op": "all_reduce", "bytes": 5, "devices": 8, "dtype": "", "implementation": "mpi"},
    {"op": "linear", "B": 512, "M": 64, "N": 64, "dtype": ""},
    {"op": "linear", "B": 512, "M": 64, "N": 64, "dtype": "bf16"},
    {"op": "bmm", "B": 8, "M": 64, "N": 64, "K": 64, "dtype": "fp32", "device": "NVIDIA L4"},
]


def test_every_kind_of_row():
    """Answers, lower ends at the data sheet's time, and each refusal in its words, on the value that is taken and the next that is not."""
    columns = list(dict.fromkeys(name for row in ROWS for name in row))
    frame = pd.DataFrame(
        [{"device": "h100_sxm", "dtype": "bf16", **row} for row in ROWS],
        columns=["device", "dtype", *(c for c in columns if c not in ("device", "dtype"))],
    )
    table = answers(frame.astype(object).fillna("").astype(str))
    kept(
        "kernel_rows",
        {
            f"{k} {json.dumps(row)}": table.loc[k, ["latency_ms", "lower_ms", "upper_ms", "source", "status"]].tolist()
            for k, row in enumerate(ROWS)
        },
    )
    for missing, said in ((["op"], "op"), (["device"], "device")):
        with pytest.raises(InputError, match=said):
            check_columns(frame.drop(columns=missing))
    for clash in ("lower_ms", "upper_ms", "source", "status"):
        with pytest.raises(InputError, match=clash):
            check_columns(frame.assign(**{clash: 1}))
    check_columns(frame.assign(latency_ms=1))
    assert _nine_digits(np.array([123456789.123, 0.123456789123, 1e-7 / 3, 0.0, np.inf])).tolist() == [
        123456789.0,
        0.123456789,
        3.33333333e-08,
        0.0,
        np.inf,
    ]


def test_the_least_time_of_each_kernel_by_hand():
    """FLOP over the data sheet's peak, or what the cache (50 MB of an H100) cannot hold over 3.35 TB/s; half of it in FP8."""
    library, z = KernelLibrary.load(), {name: np.array([1.0]) for sizes in SIZES.values() for name in sizes}
    z |= {"window": np.zeros(1), "tensor_parallel": np.full(1, 2.0), "expert_parallel": np.full(1, 4.0)}
    group = dict.fromkeys(("op", "dtype", "kv_dtype"), "")

    def least(op: str, dtype: str, **sizes: float) -> float:
        given = {**z, **{name: np.array([size]) for name, size in sizes.items()}}
        return float(np.ravel(_floor_s(library.on("h100_sxm"), {**group, "op": op, "dtype": dtype}, given))[0])

    assert least("gemm", "bf16", M=8192.0, N=8192.0, K=8192.0) == pytest.approx(2 * 8192**3 / 989.4e12)
    assert least("gemm", "fp8", M=8192.0, N=8192.0, K=8192.0) == pytest.approx(8192**3 / 989.4e12, rel=2e-3)
    cached = 2 * 64 * 8192 * 8 * 128 * 2 + 4 * 64 * 32 * 128 - gpus.load("h100_sxm").l2_bytes
    assert least(
        "attention_decode", "bf16", batch=64.0, query_heads=32.0, kv_heads=8.0, head_size=128.0, kv_tokens=8192.0
    ) == pytest.approx(cached / 3.35e12)
    assert least(
        "attention_prefill", "bf16", batch=2.0, query_heads=32.0, kv_heads=8.0, head_size=128.0, query_tokens=4096.0, kv_tokens=4096.0
    ) == pytest.approx(4 * 2 * 32 * 128 * 4096 * 4097 / 2 / 989.4e12)
    assert least("moe", "bf16", tokens=1024.0, top_k=8.0, hidden=4096.0, intermediate=1536.0, experts=64.0) == pytest.approx(
        6 * 1024 * 8 / 4 * 4096 * 1536 / 2 / 989.4e12
    )
    assert (
        least("memory_bound", "", bytes=4e9) == pytest.approx((4e9 - gpus.load("h100_sxm").l2_bytes) / 3.35e12)
        and least("memory_bound", "", bytes=1e6) == 0
    )
    assert least("all_reduce", "", bytes=4e9) == 0
