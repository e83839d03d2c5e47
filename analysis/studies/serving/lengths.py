"""How long does a batch of requests of known lengths take on a GPU that was not timed? The fitted roofline against published measurements.

PipeWeave's cases are batches that start together (`arxiv_8`: eight requests); its `workload` files give each request's prompt and output
tokens. All prompts are computed first, then every request decodes to the common length:

    prefill = step(all prompts),   total = prefill + (output - 1) x decode,   decode = step(one token of each, half the output cached)

The three numbers of the roofline (shares of arithmetic and bandwidth, fixed time) are those fitted to VIDUR's A100 with Llama-2-7B: none
of PipeWeave's times takes part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.hardware import devices
from analysis.serving.step_time.roofline import Roofline, output_layer_s, tokens_s
from analysis.studies.serving.measured import signed_errors
from analysis.workloads import models

OURS = "fitted roofline"


@dataclass(frozen=True)
class Shares:
    """Reached shares of the data sheet, and what every batch takes more (s)."""

    compute: float
    memory: float
    fixed_s: float


def batch_s(setting: Roofline, prompts: np.ndarray, output: int) -> tuple[float, float, float]:
    """Seconds of the prompts, of one decoding step halfway through, and of the whole batch.

    Args:
        setting: model, device, devices and shares.
        prompts: tokens of each prompt, shape (requests,).
        output: tokens that each request decodes (count).
    """
    model, requests = setting.model, float(len(prompts))
    always = setting.fixed_s + output_layer_s(setting)
    pairs = float((prompts * (prompts + 1) / 2).sum())
    attention = 4.0 * model.layers * model.attention_width * pairs / setting.flop_per_s
    prefill = always + float(tokens_s(setting, np.array([prompts.sum()]))[0]) + attention
    cached = float(prompts.sum()) + requests * output / 2
    read = cached * setting.kv_bytes_per_token / setting.memory_bytes_per_s
    decode = always + float(tokens_s(setting, np.array([requests]))[0]) + read
    return prefill, decode, prefill + (output - 1) * decode


def predict(cases: pd.DataFrame, workloads: Mapping[str, pd.DataFrame], shares: Shares) -> pd.DataFrame:
    """Every case with `pred_prefill_ms`, `pred_decode_ms` and `pred_total_ms` of the roofline.

    Args:
        cases: columns Hardware, TP, Model, Workload of a published comparison.
        workloads: by name, columns num_prefill_tokens and output_tokens, one row a request.
        shares: fitted elsewhere.
    """
    found = []
    for case in cases.to_dict("records"):
        requests = workloads[case["Workload"]]
        setting = Roofline(
            models.load(case["Model"].replace("3.1", "3").lower()),
            devices.load(case["Hardware"].replace("_", " ")),
            int(case["TP"]),
            compute_share=shares.compute,
            memory_share=shares.memory,
            fixed_s=shares.fixed_s,
        )
        outputs = requests["output_tokens"].to_numpy(dtype=np.int64)
        if len(set(outputs)) != 1:
            raise ValueError(f"{case['Workload']}: the requests decode to different lengths")
        found.append(batch_s(setting, requests["num_prefill_tokens"].to_numpy(dtype=np.float64), int(outputs[0])))
    times = 1e3 * np.array(found)
    return cases.assign(pred_prefill_ms=times[:, 0], pred_decode_ms=times[:, 1], pred_total_ms=times[:, 2])


def errors(tables: Mapping[str, pd.DataFrame], workloads: Mapping[str, pd.DataFrame], shares: Shares) -> pd.DataFrame:
    """Signed errors of ours and of the published predictors, on the same cases.

    Args:
        tables: the published comparison of each of `METHODS`.
        workloads, shares: as for `predict`.
    Returns: hardware, devices, model, workload, method, prefill_percent, decode_percent, total_percent.
    """
    ours = predict(tables["pipeweave"], workloads, shares).assign(method=OURS)
    return signed_errors([ours], tables, ("prefill", "decode", "total"))
