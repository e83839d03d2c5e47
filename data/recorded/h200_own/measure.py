"""Measures the questions of `questions.py` on the GPU of this machine with PyTorch and JAX. Each part writes what it has after each row.

`python measure.py training|kernels|programs QUESTIONS OUT SECONDS`: QUESTIONS holds training.csv, kernels.csv and the exported programs
(*.jaxexport), OUT takes the tables; no row starts after SECONDS. A run of `training` is a process of its own, so that memory
begins at zero and an error ends one row alone.
"""

from __future__ import annotations

import csv
import multiprocessing
import statistics
import sys
import time
from pathlib import Path

TINY = "--tiny" in sys.argv  # small sizes, to try the script without a GPU
SIZES = {  # Meta's config.json: width, layers, heads, key heads, head size, feed-forward width, tied embeddings
    "Llama-3.2-1B": (2048, 16, 32, 8, 64, 8192, True),
    "Llama-3.2-3B": (3072, 28, 24, 8, 128, 8192, True),
    "Llama-3.1-8B": (4096, 32, 32, 8, 128, 14336, False),
}
WARM, TIMED = 3, 8


def write(path: Path, rows: list[dict]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


# --- training -----------------------------------------------------------------------------------------------------------


def model_of(row: dict):
    """The network with weights in fp32 (bf16 for LoRA) on the device, from random values; attention by PyTorch's scaled_dot_product_attention."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    hidden, layers, heads, kv, size, ffn, tied = SIZES[row["model"]]
    if TINY:
        hidden, layers, heads, kv, size, ffn = 64, 2, 4, 2, 16, 128
    config = LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv, head_dim=size, intermediate_size=ffn,
        vocab_size=512 if TINY else 128256, tie_word_embeddings=tied, max_position_embeddings=8192, rope_theta=500000.0, use_cache=False,
        attn_implementation="sdpa",
    )
    kind = torch.bfloat16 if row["kind"] == "lora" else torch.float32
    torch.set_default_dtype(kind)
    with torch.device(device()):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def run(row: dict) -> dict:
    """One training run: seconds of the median step, peak memory, energy."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    cuda = torch.cuda.is_available()
    where = device()
    dist.init_process_group("nccl" if cuda else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(where, (1,))
    model = model_of(row)
    if row["kind"] == "lora":
        from peft import LoraConfig, get_peft_model

        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=targets, task_type="CAUSAL_LM"))
        model.enable_input_require_grads()
    blocks = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m))
    if row["recompute"] == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    loss_of = torch.nn.functional.cross_entropy
    if row["program"] == "fsdp_compiled":
        for block in blocks:
            block.compile()
        loss_of = torch.compile(loss_of)
    if row["kind"] != "lora":  # LoRA: weights in bf16, adapters in fp32 as peft makes them, PyTorch's autocast
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    learned = [p for p in model.parameters() if p.requires_grad]
    if row["optimizer"] == "adamw":
        optimizer = torch.optim.AdamW(learned, lr=1e-5, fused=cuda)
    else:
        optimizer = torch.optim.SGD(learned, lr=1e-5, foreach=True)
    length, batch = (64 if TINY else int(row["sequence_length"])), int(row["micro_batch"])
    tokens = torch.randint(0, model.config.vocab_size, (int(row["accumulation"]), batch, length + 1), device=where)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for piece in tokens:
            with torch.autocast(where, torch.bfloat16, enabled=row["kind"] == "lora"):
                logits = model(input_ids=piece[:, :-1]).logits
            loss = loss_of(logits.float().flatten(0, 1), piece[:, 1:].flatten())
            (loss / len(tokens)).backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()

    for _ in range(WARM):
        step()
    if not cuda:
        return {"step_ms": 0.0, "parameters": sum(p.numel() for p in model.parameters())}
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    torch.cuda.synchronize()
    before, seconds, clocks = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), [], []
    begin = time.perf_counter()
    for _ in range(TIMED):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        clocks.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
    total = time.perf_counter() - begin
    joules = (pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before) / 1000
    found = {
        "step_ms": 1e3 * statistics.median(seconds), "step_ms_least": 1e3 * min(seconds), "step_ms_most": 1e3 * max(seconds),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30, "reserved_gib": torch.cuda.max_memory_reserved() / 2**30,
        "watts": joules / total, "sm_mhz": statistics.median(clocks), "parameters": sum(p.numel() for p in model.parameters()),
    }
    if row.get("trace"):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as kept:
            step()
            torch.cuda.synchronize()
        kept.export_chrome_trace(row["trace"])
    return found


def training(questions: Path, out: Path, seconds: float) -> None:
    import peft  # noqa: F401  what takes seconds to import is imported once; each run is a fork, which alone speaks to the GPU
    import torch.distributed.fsdp
    import transformers.models.llama.modeling_llama  # noqa: F401

    start, rows = time.time(), []
    for place, row in enumerate(csv.DictReader((questions / "training.csv").open())):
        left = seconds - (time.time() - start)
        if left < 8:
            break
        if place == 0 and row["optimizer"] == "adamw" and row["micro_batch"] == "1":
            row["trace"] = str(out / "step.json.gz")
        begin = time.time()
        ours, theirs = multiprocessing.get_context("fork").Pipe(False)
        process = multiprocessing.get_context("fork").Process(target=_send, args=(theirs, row))
        process.start()
        theirs.close()
        row.pop("trace", None)
        try:
            row |= ours.recv() if ours.poll(min(left + 5, 75)) else {"status": "failed: timed out"}
        except EOFError:
            row["status"] = "failed: process ended"
        process.kill()
        process.join()
        rows.append(row)
        write(out / "training.csv", rows)
        print(f"{time.time() - begin:5.1f} s", {k: row[k] for k in ("model", "program", "recompute", "status", "step_ms", "peak_gib", "watts") if k in row}, flush=True)


def _send(pipe, row: dict) -> None:
    try:
        pipe.send(run(row) | {"status": "measured"})
    except Exception as error:
        kind = type(error).__name__
        pipe.send({"status": "out of memory" if kind == "OutOfMemoryError" else f"failed: {kind}: {str(error)[:200]}"})


# --- kernels ------------------------------------------------------------------------------------------------------------


def kernel_of(row: dict):
    """A function that starts the kernel once, over operands that are made here."""
    import torch

    where = device()
    if row["op"] == "gemm":
        m, n, k = (int(row[name]) for name in "MNK")
        a, b = torch.randn(m, k, device=where, dtype=torch.bfloat16), torch.randn(n, k, device=where, dtype=torch.bfloat16)
        if row["precision"] == "bf16":
            return lambda: torch.nn.functional.linear(a, b)
        a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        one = torch.ones((), device=where)
        return lambda: torch._scaled_mm(a8, b8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, kv, size, queries, keys = (int(row[n]) for n in ("batch", "query_heads", "kv_heads", "head_size", "query_tokens", "kv_tokens"))
    q = torch.randn(batch, heads, queries, size, device=where, dtype=torch.bfloat16)
    k, v = (torch.randn(batch, kv, keys, size, device=where, dtype=torch.bfloat16) for _ in range(2))
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[row["backend"]]

    def attention():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=queries == keys, enable_gqa=heads != kv)

    return attention


def kernels(questions: Path, out: Path, seconds: float) -> None:
    """Milliseconds of a kernel: `graph_ms` in a CUDA graph of twenty, over the same operands; `cold_ms` with the cache emptied before each."""
    import torch

    start, rows = time.time(), []
    asked = []
    for row in csv.DictReader((questions / "kernels.csv").open()):
        asked += [row | {"backend": ""}] if row["op"] == "gemm" else [row | {"backend": b} for b in ("cudnn", "flash")]
    asked.sort(key=lambda row: row["op"] == "gemm" and row["precision"] == "bf16")
    cuda = torch.cuda.is_available()
    for row in asked:
        if time.time() - start > seconds:
            break
        try:
            once = kernel_of(row)
            once()
            if cuda:
                from triton.testing import do_bench

                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(20):
                        once()
                graph.replay()
                times = []
                for _ in range(7):
                    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    a.record()
                    graph.replay()
                    b.record()
                    b.synchronize()
                    times.append(a.elapsed_time(b) / 20)
                row["graph_ms"] = statistics.median(times)
                row["cold_ms"] = do_bench(once, warmup=5, rep=40, return_mode="median")
                del graph
            row["status"] = "measured"
        except Exception as error:
            row["status"] = f"failed: {type(error).__name__}: {str(error)[:160]}"
        rows.append(row)
    write(out / "kernels.csv", rows)
    if cuda:
        big, to = torch.randn(2**30, device="cuda", dtype=torch.bfloat16), torch.empty(2**30, device="cuda", dtype=torch.bfloat16)
        ms = do_bench(lambda: to.copy_(big), return_mode="median")
        x, y = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16), torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        write(out / "machine.csv", [{
            "device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
            "copy_tb_per_s": 4 * 2**30 / ms / 1e9, "product_tflop_per_s": 2 * 8192**3 / do_bench(lambda: x @ y, rep=500, return_mode="median") / 1e9,
        }])
    print(time.time() - start, "s;", sum(r["status"] == "measured" for r in rows), "of", len(asked), {r["status"] for r in rows}, flush=True)


# --- programs -----------------------------------------------------------------------------------------------------------


def programs(questions: Path, out: Path, seconds: float) -> None:
    """Milliseconds of a StableHLO program as XLA compiles it for this device; arguments are drawn, results are not copied to the host."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import export

    start, rows = time.time(), []
    for name in (questions / "programs.txt").read_text().split():
        if time.time() - start > seconds:
            break
        row = {"program": name, "jax": jax.__version__}
        try:
            got = export.deserialize(bytearray((questions / f"{name}.jaxexport").read_bytes()))
            avals = got.in_avals

            values, big = np.random.default_rng(0), jax.jit(lambda key, like: 0.02 * jax.random.normal(key, like.shape, like.dtype), static_argnums=1)
            drawn = [
                values.integers(0, 100, a.shape).astype(a.dtype) if not jnp.issubdtype(a.dtype, jnp.floating)
                else big(jax.random.key(0), jax.ShapeDtypeStruct(a.shape, a.dtype)) if a.size > 2**22
                else jnp.asarray(0.02 * values.standard_normal(a.shape, np.float32), a.dtype)
                for a in avals
            ]
            arguments, named = jax.tree.unflatten(got.in_tree, drawn)
            begin = time.time()
            compiled = jax.jit(got.call).lower(*arguments, **named).compile()
            row["compile_s"] = time.time() - begin
            jax.block_until_ready(compiled(*arguments, **named))
            times = []
            for _ in range(12):
                begin = time.perf_counter()
                jax.block_until_ready(compiled(*arguments, **named))
                times.append(1e3 * (time.perf_counter() - begin))
            row |= {"ms": statistics.median(times), "ms_least": min(times), "ms_most": max(times)}
            begin = time.perf_counter()
            for _ in range(10):
                last = compiled(*arguments, **named)
            jax.block_until_ready(last)
            row["queued_ms"] = 1e3 * (time.perf_counter() - begin) / 10
            row["status"] = "measured"
            del drawn, arguments, named, compiled, last
        except Exception as error:
            row["status"] = f"failed: {type(error).__name__}: {str(error)[:160]}"
        rows.append(row)
        write(out / "programs.csv", rows)
        print(f"{time.time() - start:5.1f} s", row, flush=True)


if __name__ == "__main__":
    {"training": training, "kernels": kernels, "programs": programs}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
