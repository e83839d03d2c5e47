"""Words for readers in place of the data's keys: heads of columns with their units, and cells that hold a key."""

from __future__ import annotations

import re

_UNITS = {
    "pct": "%",
    "percent": "%",
    "s": "s",
    "ms": "ms",
    "us": "µs",
    "ns": "ns",
    "j": "J",
    "mj": "mJ",
    "uj": "µJ",
    "pj": "pJ",
    "kib": "KiB",
    "mib": "MiB",
    "gib": "GiB",
    "mb": "MB",
    "gb": "GB",
    "w": "W",
    "bytes": "bytes",
    "GBps": "GB/s",
    "gib_per_s": "GiB/s",
    "gb_per_s": "GB/s",
    "gb_s": "GB/s",
    "tflop_per_s": "TFLOP/s",
    "flop_per_byte": "FLOP/byte",
    "per_s": "1/s",
    "pj_per_mac": "pJ/MAC",
    "kib_per_token": "KiB a token",
    "mwords": "million words",
    "mcycles": "million cycles",
}
"""How the last part of a column's name, its unit, is printed in the head of a table."""
_WORDS = """ML NPU NPUs GPU GPUs CPU PE PEs SM MAC MACs DRAM SRAM KV TDP FLOP XLA HLO IPC ROB L1D L1I L2 KiB GiB fJ
EDP TTFT TPOT E2E P99 MFU MAPE MTAP D1 D2 D3 D4 D5 DOI ID URL GPT
Timeloop ZigZag ASTRA-sim VIDUR vLLM Sarathi Calculon NeuSight PipeWeave Habitat Spearman Kendall"""
_ACRONYMS = {word.lower(): word for word in _WORDS.split()}


_TITLES = {
    "mae": "mean absolute error",
    "mae_more": "mean absolute error, more (%)",
    "best_within_2pct": "best within 2 % (%)",
    "rmse": "root mean square error",
    "rae": "relative absolute error",
    "tau": "Kendall's tau",
    "within1": "within 1 cycle (%)",
    "within2": "within 2 cycles (%)",
    "mcycles": "million cycles",
    "uj": "energy (µJ)",
    "mips": "million instructions/s",
    "mips_at_1ghz": "million instructions/s at 1 GHz",
    "clock_mhz": "clock (MHz)",
    "cv": "variation (%)",
    "cv_low": "variation, low",
    "cv_high": "variation, high",
    "kv_gib_4096": "KV of 4,096 tokens (GiB)",
    "ipc": "instructions per cycle",
    "gem5_ipc": "gem5, instructions per cycle",
    "npus": "NPUs",
    "mbytes_per_s": "MB/s",
    "arch": "core",
    "room": "subpackage",
    "venue_short": "venue",
    "area_m2": "area (m²)",
    "zero": "ZeRO",
    "kib": "size (KiB)",
    "cpu_minutes": "processor time (min)",
    "astra_us": "ASTRA-sim (µs)",
    "astra_error_percent": "ASTRA-sim error (%)",
    "median_error_from_1_mib": "median error from 1 MiB (%)",
}
"""Names of columns that no rule turns into words."""


def heading(column: str, about: str = "") -> str:
    """A column's name as a table's head prints it: words, with the unit in parentheses (`energy_uj`: energy (µJ)).

    Args:
        column: name in the CSV; its last part may be a unit.
        about: the column's description, which ends with a unit in parentheses when the name has none.
    """
    if column in _TITLES:
        return _TITLES[column]
    for unit in sorted(_UNITS, key=len, reverse=True):
        if column.endswith(f"_{unit}"):
            return f"{heading(column.removesuffix(f'_{unit}'))} ({_UNITS[unit]})"
    described = re.search(r"\((%|percent|s|1/s|uJ|us|ms|ns|GiB|MiB|KiB|GB/s|GiB/s|mJ|pJ/MAC|min|tokens/s)\)$", about)
    if described and not re.search(r"_(kib|gib|pj|fj)|seconds|per_s", column):
        return f"{heading(column)} ({described[1].replace('percent', '%').replace('u', 'µ')})"
    return " ".join(_ACRONYMS.get(word.lower(), word) for word in column.split("_"))


KEY = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")
_SPELLED = """ASTRA AMD AWS B200 B300 BERT BMM C CNN CoreWeave DRAM FP8 FSDP GB200 GCP GEMM H100 H200 A100 V100 HLO INT4 INT8 InternEvo
Ironwood JAX LightLLM LLM LoRA MaxText Megatron MLA MLPerf MoE MI300X NCCL NVL72 ONNX Orca Primus QPS ResNet-18 ResNet-50 RTX
SC21 SCALE-Sim SXM TITAN TPU TPUs TRT-LLM torchtitan TLP UNet vTrain XLA YAML"""
_SPELLINGS = {word.lower(): word for word in _SPELLED.split()} | {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "llama2": "Llama 2",
    "llama3": "Llama 3",
    "llama31": "Llama 3.1",
    "gpt3": "GPT-3",
    "7b": "7B",
    "70b": "70B",
    "405b": "405B",
    "trtllm": "TensorRT-LLM",
    "elem": "elementwise",
    "ln": "layer norm",
    "ds": "data sheet",
    "pct": "(%)",
    "wo": "weights only",
    "eff": "efficiency",
    "util": "utilization",
    "2n": "2 nodes",
    "1n": "1 node",
    "qps2": "2 requests/s",
    "qps8": "8 requests/s",
    "sgl": "SGLang",
    "perf": "performance",
    "utf8": "UTF-8",
    "cfg": "CFG",
    "ifmap": "input map",
    "ofmap": "output map",
}
_KEYS = {
    "kernels_today": "kernels on GPUs",
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "serving_tpot": "serving: time per token",
    "serving_ttft": "serving: first token",
    "serving_elsewhere": "serving: another benchmark",
    "rtx_pro_6000_server": "RTX PRO 6000 Server",
    "mlperf_llama2_70b_lora": "MLPerf: Llama 2 70B with LoRA",
    "mlperf_llama31_405b": "MLPerf: Llama 3.1 405B",
    "mlperf_gpt3": "MLPerf: GPT-3",
    "few_shot": "few-shot transfer",
    "step_time": "decode step",
    "round_robin": "round robin",
    "ml_survey": "earlier survey",
    "scale_sim_stalls": "stalls of SCALE-Sim",
    "astra_sim_closed_forms": "closed forms of ASTRA-sim",
    "astra_sim_replay": "replay against ASTRA-sim",
    "primus_mi300x": "Primus, MI300X",
    "torchtitan_a100": "torchtitan, A100",
    "torchtitan_h100": "torchtitan, H100",
    "megatron_bridge_llama3": "Megatron-Bridge: Llama 3",
    "megatron_bridge_other": "Megatron-Bridge: other models",
    "vtrain_single_node": "vTrain, one node",
    "vtrain_multi_node": "vTrain, several nodes",
    "llm_foundry": "LLM Foundry",
    "fp8_block": "FP8, block scales",
    "int4_wo": "INT4 weights",
    "int8_wo": "INT8 weights",
    "titan_rtx_256": "TITAN RTX, 256",
    "gold_6226": "Xeon Gold 6226",
    "a100_step_time": "steps on A100",
    "single_workload_or_hardware": "one workload or machine only",
}
"""Keys that no rule turns into words."""


def in_words(text: str) -> str:
    """A key of the data as readers read it (`megatron_sc21`: Megatron SC21); any other text as it is."""
    if not KEY.fullmatch(text):
        return text
    return _KEYS.get(text) or " ".join(_SPELLINGS.get(word) or _ACRONYMS.get(word, word) for word in text.split("_"))
