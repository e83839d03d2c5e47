"""How long does a batch take, from a profile of batches already timed?

Everything but attention depends on the tokens in the batch alone: a table, linear between the counts seen, held up to the next multiple of
the profile's rounding. Attention is a surface over two variables: a bilinear law fitted to the profile, times the ratio of the profile
to that law, interpolated between the points seen and continued by the nearest. The profile is met where there is one, the law where not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

from analysis.errors import InputError
from analysis.serving.requests import Floats
from analysis.serving.step_time.linear import coefficients
from analysis.serving.steps import Grid, StepTime
from analysis.tables import read_csv

ATTENTION = ("ms_attn_decode", "ms_attn_prefill")
COLUMNS = ("rounded_tokens", "n_decode", "prefill_kv_chunk", "decode_kv_mean", "num_layers", "total_time_s", *ATTENTION)
LONGEST = 8192
"""Tokens of a batch, of a context and of a prompt up to which there are tables."""
ROUNDING, KV_ROUNDING = 8, 64
"""To multiples of which the profile rounds the tokens of a batch up, and the cached tokens of a request."""
Law = Callable[[Floats, Floats], Floats]


def prompt_shape(batches: pd.DataFrame) -> tuple[Floats, Floats]:
    """Context tokens and sqrt(sum of chunk^2) of the prompts of each batch, shapes (batches,).

    Args:
        batches: `prefill_kv_chunk` holds `earlier tokens:chunk` of each prompt, separated by semicolons.
    """
    context, root = np.zeros((2, len(batches)))
    for row, text in enumerate(batches["prefill_kv_chunk"]):
        if isinstance(text, str):
            pieces = np.array([piece.split(":") for piece in text.split(";")], dtype=np.float64)
            context[row], root[row] = pieces[:, 0].sum(), np.sqrt((pieces[:, 1] ** 2).sum())
    return context, root


def decode_law(requests: Floats, cached: Floats) -> Floats:
    """Terms of decode attention: 1, requests, tokens read; shape (n, 3)."""
    return np.column_stack([np.ones_like(requests), requests, requests * cached])


def prefill_law(context: Floats, root: Floats) -> Floats:
    """Terms of prompt attention: 1, chunk, chunk^2, chunk x context; shape (n, 4)."""
    return np.column_stack([np.ones_like(root), root, root**2, root * context])


def surface(x: Floats, y: Floats, seconds: Floats, law: Law, x_axis: Floats, y_axis: Floats) -> Grid:
    """A surface on a grid, from scattered points: law x interpolated ratio.

    Args:
        x, y, seconds: the points, shape (n,); equal points are averaged.
        law: terms whose combination, with coefficients not negative and least relative error, carries the surface beyond the points.
        x_axis, y_axis: the grid's axes.
    """
    points = pd.DataFrame({"x": x, "y": y, "s": seconds}).groupby(["x", "y"], as_index=False)["s"].mean()
    px, py, ps = (points[name].to_numpy(dtype=np.float64) for name in ("x", "y", "s"))
    each = coefficients(law(px, py), ps)
    ratio = ps / (law(px, py) @ each)
    where = np.column_stack([px / x_axis.max(), py / y_axis.max()])
    gx, gy = (axis.ravel() for axis in np.meshgrid(x_axis, y_axis, indexing="ij"))
    targets = np.column_stack([gx / x_axis.max(), gy / y_axis.max()])
    factor = NearestNDInterpolator(where, ratio)(targets)
    if len(points) > 3 and len(np.unique(px)) > 1 and len(np.unique(py)) > 1:
        inside = LinearNDInterpolator(where, ratio)(targets)
        factor = np.where(np.isnan(inside), factor, inside)
    return Grid(x_axis, y_axis, (law(gx, gy) @ each * factor).reshape(x_axis.size, y_axis.size))


def from_batches(batches: pd.DataFrame) -> StepTime:
    """A step time from timed batches with `COLUMNS`, of which `ms_attn_*` are milliseconds of one layer.

    Beyond the largest batch seen the table continues along the line through the largest half.
    """
    layers = batches["num_layers"].to_numpy(dtype=np.float64)
    attention = {name: 1e-3 * layers * batches[name].to_numpy(dtype=np.float64) for name in ATTENTION}
    dense = batches["total_time_s"].to_numpy(dtype=np.float64) - attention[ATTENTION[0]] - attention[ATTENTION[1]]
    seen = pd.Series(dense).groupby(batches["rounded_tokens"].to_numpy(dtype=np.float64)).mean()
    counts, seconds = seen.index.to_numpy(dtype=np.float64), seen.to_numpy()
    if counts.size < 2:
        raise InputError("a profile needs batches of at least two sizes", key="rounded_tokens")
    tokens = np.arange(max(LONGEST, int(counts[-1])) + 1, dtype=np.float64)
    table = np.interp(np.ceil(tokens / ROUNDING) * ROUNDING, counts, seconds)
    upper = slice(counts.size // 2, None) if counts.size > 3 else slice(None)
    slope = max(0.0, float(np.polyfit(counts[upper], seconds[upper], 1)[0]))
    beyond = tokens > counts[-1]
    table[beyond] = seconds[-1] + slope * (tokens[beyond] - counts[-1])

    decodes, prompts = (attention[name] > 0 for name in ATTENTION)
    decode = prefill = None
    if decodes.any():
        requests = batches["n_decode"].to_numpy(dtype=np.float64)[decodes]
        cached = np.ceil(batches["decode_kv_mean"].to_numpy(dtype=np.float64)[decodes] / KV_ROUNDING) * KV_ROUNDING
        axis = np.unique(np.concatenate([np.arange(1, 33), np.geomspace(32, 256, 13).round()])).astype(np.float64)
        decode = surface(requests, cached, attention[ATTENTION[0]][decodes], decode_law, axis, np.arange(0.0, LONGEST + 1, 128.0))
    if prompts.any():
        context, root = prompt_shape(batches[prompts])
        axes = np.arange(0.0, LONGEST + 1, 256.0), np.concatenate([np.arange(0.0, 1024, 16.0), np.arange(1024.0, LONGEST + 1, 128.0)])
        prefill = surface(context, root, attention[ATTENTION[1]][prompts], prefill_law, *axes)
    return StepTime(token_s=table, kv_rounding=KV_ROUNDING, decode=decode, prefill=prefill)


def read_profile(paths: Iterable[str | Path]) -> StepTime:
    """A step time from files of recorded batches, with `COLUMNS`; CSV, plain or gzip."""
    return from_batches(pd.concat([read_csv(path, required=COLUMNS) for path in paths], ignore_index=True))
