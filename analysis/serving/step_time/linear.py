"""Step time as a linear function of what is in a batch, fitted to recorded batches.

    t = fixed + a x prompt tokens + b x decoding requests + c x cached tokens + d x query-key pairs

with coefficients that are not negative, by least squares of relative errors. It has no steps and no knee: for sweeps and tests that need a
plausible time, not a profile.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.serving.requests import Floats
from analysis.serving.steps import StepTime, linear
from analysis.tables import read_csv

COLUMNS = ("total_tokens", "n_prefill", "n_decode", "prefill_kv_chunk", "decode_kv_mean", "total_time_s")


def features(batches: pd.DataFrame) -> Floats:
    """Columns 1, prompt tokens, decoding requests, cached tokens, query-key pairs; shape (batches, 5).

    Args:
        batches: recorded batches; `prefill_kv_chunk` holds `earlier tokens:chunk` for each prompt, separated by semicolons.
    """
    pairs = np.zeros(len(batches))
    for row, text in enumerate(batches["prefill_kv_chunk"]):
        if isinstance(text, str):
            for prompt in text.split(";"):
                earlier, chunk = (float(number) for number in prompt.split(":"))
                pairs[row] += chunk * (earlier + 0.5 * (chunk + 1))
    decodes = batches["n_decode"].to_numpy(dtype=np.float64)
    cached = decodes * batches["decode_kv_mean"].to_numpy(dtype=np.float64)
    return np.column_stack([np.ones(len(batches)), batches["total_tokens"].to_numpy() - decodes, decodes, cached, pairs])


def coefficients(terms: Floats, seconds: Floats) -> Floats:
    """Seconds for one of each term, none negative, by least squares of relative errors; shape (terms,)."""
    from scipy.optimize import nnls

    scale = np.abs(terms).max(axis=0)
    scale[scale == 0] = 1.0
    return np.asarray(nnls(terms / scale / seconds[:, None], np.ones(len(seconds)))[0] / scale)


def fit(batches: pd.DataFrame) -> StepTime:
    """Fit the linear step time to recorded batches."""
    fixed, prompt, decode, cached, pair = coefficients(features(batches), batches["total_time_s"].to_numpy(dtype=np.float64)).tolist()
    return linear(fixed, prompt, decode, cached, pair)


def read_fit(path: str | Path) -> StepTime:
    """Fit the linear step time to a file of recorded batches."""
    batches = read_csv(path, required=COLUMNS)
    try:
        return fit(batches)
    except (ValueError, TypeError) as error:
        raise InputError(f"expected recorded batches: {error}", path=path) from None
