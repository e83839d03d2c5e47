"""What is measured on one GPU: training runs, products, attention. Written, and predicted, before anything was measured.

`python questions.py FOLDER` writes training.csv and kernels.csv; their columns are those of `predict training` and `kernels predict`.
"""

import csv
import random
import sys
from pathlib import Path

DEVICE = "H200-SXM"
RUNS = [  # model, program, kind, optimizer, sequence length, sequences at once, microbatches of a step, recomputation
    ("Llama-3.2-1B", "fsdp", "pretrain", "adamw", 4096, 1, 1, "none"),
    ("Llama-3.2-1B", "fsdp", "pretrain", "adamw", 4096, 4, 1, "none"),
    ("Llama-3.2-1B", "fsdp_compiled", "pretrain", "adamw", 4096, 4, 1, "none"),
    ("Llama-3.1-8B", "fsdp", "lora", "adamw", 4096, 1, 1, "full"),
    ("Llama-3.2-3B", "fsdp", "pretrain", "adamw", 4096, 1, 1, "full"),
    ("Llama-3.1-8B", "fsdp", "pretrain", "sgd", 4096, 1, 1, "full"),
    ("Llama-3.2-1B", "fsdp_compiled", "pretrain", "adamw", 4096, 4, 1, "full"),
    ("Llama-3.2-3B", "fsdp_compiled", "pretrain", "adamw", 4096, 2, 1, "full"),
    ("Llama-3.2-1B", "fsdp", "pretrain", "adamw", 8192, 2, 1, "full"),
    ("Llama-3.1-8B", "fsdp", "lora", "adamw", 2048, 2, 1, "none"),
    ("Llama-3.2-1B", "fsdp", "pretrain", "adamw", 2048, 1, 8, "none"),
    ("Llama-3.2-1B", "fsdp_compiled", "pretrain", "adamw", 2048, 2, 1, "none"),
    ("Llama-3.2-1B", "fsdp", "pretrain", "adamw", 8192, 1, 1, "none"),
    ("Llama-3.1-8B", "fsdp", "pretrain", "adamw", 4096, 1, 1, "full"),  # 16 bytes a parameter are more than the card has
    ("Llama-3.2-1B", "fsdp", "pretrain", "adamw", 4096, 8, 1, "none"),
]
LAYERS = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672), (7168, 3584),
          (2560, 8192), (8192, 3584), (128256, 4096)]  # outputs, inputs: layers of Llama 3 8B and 70B, whole and a quarter, their output layers
ROWS = [1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]


def training() -> list[dict]:
    names = ("model", "program", "kind", "optimizer", "sequence_length", "micro_batch", "accumulation", "recompute")
    runs = [dict(zip(names, run, strict=True)) for run in RUNS]
    return [{"device": DEVICE, "gpus": 1, "precision": "bf16", "global_batch": r["micro_batch"] * r["accumulation"], **r} for r in runs]


def kernels() -> list[dict]:
    draw = random.Random(20261126)
    rows = []
    for kind, count in (("bf16", 36), ("fp8", 18)):
        for _ in range(count):
            (n, k), m = draw.choice(LAYERS), draw.choice(ROWS)
            rows.append({"op": "gemm", "device": DEVICE, "precision": kind, "M": max(m, 16) if kind == "fp8" else m, "N": n, "K": k})
    for op, count in (("attention_prefill", 14), ("attention_decode", 10)):
        for _ in range(count):
            heads, kv = draw.choice([(32, 8), (64, 8), (16, 2), (32, 32)])
            tokens = draw.choice([1024, 2048, 4096, 8192])
            batch = draw.choice([1, 2, 4]) if op == "attention_prefill" else draw.choice([8, 32, 128])
            rows.append({"op": op, "device": DEVICE, "precision": "bf16", "batch": batch, "query_heads": heads, "kv_heads": kv, "head_size": 128,
                         "query_tokens": tokens if op == "attention_prefill" else 1, "kv_tokens": tokens})
    return rows


if __name__ == "__main__":
    for name, rows in (("training", training()), ("kernels", kernels())):
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with (Path(sys.argv[1]) / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
