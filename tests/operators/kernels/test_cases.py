"""`kernels predict` on kernels of today's GPUs: rows are kept, types not covered refused, own cards answered from their data sheet."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.commands.models.kernels import app
from analysis.kernels import gpus
from analysis.kernels.cases import answers

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
    assert got["source"].tolist()[:2] == ["measured gpu", "unmeasured gpu"]
    assert "no nvfp4 rate" in got["status"][2] and "needs a dtype" in got["status"][3] and "whole number" in got["status"][4]
    assert "fp32 only, not in bf16" in got["status"][9] and "not known" in got["status"][10]


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
    assert got["source"][0] == "unmeasured gpu"
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
    got = predicted(tmp_path, [row, {**row, "dtype": "bf16"}])
    assert got["lower_ms"][0] >= 0.999e3 * 2 * 4096**3 / 125e12 and "no bf16 rate" in got["status"][1]


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
