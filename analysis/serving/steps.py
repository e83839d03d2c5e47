"""How long does one batch take?

`StepTime` holds everything that the event loop needs to answer it, as plain arrays, so that one compiled loop serves every model:

    t = fixed + token_s[tokens] + sequence_s[requests] + prefills + decodes + swapped blocks x time of one
    prefills = prompt_s x prompt tokens + pair_s x pairs + prefill_grid(context tokens, sqrt(sum of chunk^2))
               (or, where `prefill_each`, the sum over prompts of prefill_grid(context, chunk))
    decodes  = request_s x decoding requests + kv_s x cached tokens + decode_grid(decoding requests, mean cached tokens)
    t >= launch_s of a batch with a prompt and more than graph_tokens tokens

`token_s` may be any function of the tokens in a batch, tabulated: linear, a roofline with its knee, a measured profile with its
steps, a fitted forest, experts of a mixture; past its end it goes on along its last slope. `pairs` counts query-key pairs of causal
attention: a chunk of c tokens after p earlier ones has c x (p + (c + 1) / 2). The grids are bilinear between their axes' points and go on
beyond them; leave them out if not needed. A profile of the GPU's kernels (`step_time.gpu_profile`) takes the place of all this, and so do
recorded times, which are used in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.errors import InputError
from analysis.serving.state import Replica
from analysis.serving.step_time.gpu_profile import NO_PROFILE, Profile
from analysis.tables import numbers, read_csv

Floats = NDArray[np.float64]


class Steps(NamedTuple):
    """`StepTime` as the compiled loop sees it."""

    recorded: Any
    token_s: Any
    fixed_s: float
    prompt_s: float
    pair_s: float
    request_s: float
    kv_s: float
    kv_rounding: int
    prefill_context: Any
    prefill_chunk: Any
    prefill_grid: Any
    decode_requests: Any
    decode_kv: Any
    decode_grid: Any
    sequence_s: Any
    prefill_each: int
    launch_s: float
    graph_tokens: int


@dataclass(frozen=True)
class Grid:
    """A function of two variables on a grid.

    Attributes:
        x: first axis, ascending, shape (m,), m >= 2.
        y: second axis, ascending, shape (n,), n >= 2.
        seconds: shape (m, n).
    """

    x: Floats
    y: Floats
    seconds: Floats


@dataclass(frozen=True)
class StepTime:
    """Time of a batch as a function of what is in it; the module says the formula.

    Attributes:
        token_s: seconds for 0, 1, 2, ... tokens in the batch, shape (n,), n >= 2.
        prompt_s: seconds a prompt token, besides `token_s`.
        pair_s: seconds a query-key pair of prefill attention.
        request_s: seconds a decoding request, besides `token_s`.
        kv_s: seconds a cached token read by a decoding request.
        kv_rounding: in the decode grid the mean cached tokens are rounded up to a multiple of this; 0: not.
        prefill: grid over (context tokens, sqrt(sum of chunk^2)), or None.
        decode: grid over (decoding requests, mean cached tokens), or None.
        recorded: recorded seconds of each batch in order; nothing else counts then.
        sequence_s: seconds for 0, 1, 2, ... requests in the batch, or None.
        prefill_each: the prefill grid is that of one prompt, and is summed over the prompts.
        launch_s: least seconds of a batch with a prompt and more than `graph_tokens` tokens, which no CUDA graph replays.
        profile: kernels of the GPU; nothing else counts then.
    """

    token_s: Floats = field(default_factory=lambda: np.zeros(2))
    fixed_s: float = 0.0
    prompt_s: float = 0.0
    pair_s: float = 0.0
    request_s: float = 0.0
    kv_s: float = 0.0
    kv_rounding: int = 0
    prefill: Grid | None = None
    decode: Grid | None = None
    recorded: Floats | None = None
    sequence_s: Floats | None = None
    prefill_each: bool = False
    launch_s: float = 0.0
    graph_tokens: int = 0
    profile: Profile = NO_PROFILE

    def __post_init__(self) -> None:
        scalars = np.array([self.fixed_s, self.prompt_s, self.pair_s, self.request_s, self.kv_s, self.launch_s])
        tables = {"token_s": self.token_s, "coefficients": scalars, "recorded": self.recorded, "sequence_s": self.sequence_s}
        for name, values in tables.items():
            if values is not None and not (np.isfinite(values).all() and (values >= 0).all()):
                raise InputError("step times must be finite and not negative", key=name)
        if self.recorded is not None and self.recorded.size == 0:
            raise InputError("there are no recorded steps")

    @cached_property
    def compiled(self) -> Steps:
        """The same as one tuple of arrays and numbers, always of the same types."""
        grids = [(np.zeros(0), np.zeros(0), np.zeros((0, 0))) if g is None else (g.x, g.y, g.seconds) for g in (self.prefill, self.decode)]
        arrays = {
            "recorded": np.zeros(0) if self.recorded is None else self.recorded,
            "token_s": self.token_s,
            "sequence_s": np.zeros(2) if self.sequence_s is None else self.sequence_s,
            **dict(zip(("prefill_context", "prefill_chunk", "prefill_grid"), grids[0], strict=True)),
            **dict(zip(("decode_requests", "decode_kv", "decode_grid"), grids[1], strict=True)),
        }
        seconds = ("fixed_s", "prompt_s", "pair_s", "request_s", "kv_s", "launch_s")
        counts = ("kv_rounding", "prefill_each", "graph_tokens")
        found: dict[str, Any] = {name: np.array(values, dtype=np.float64, order="C") for name, values in arrays.items()}
        found |= {name: float(getattr(self, name)) for name in seconds} | {name: int(getattr(self, name)) for name in counts}
        return Steps(**found)


def tabulate(time_s: Callable[[Floats], Floats], most: int = 4096) -> Floats:
    """Table of a function of the tokens in a batch, for `StepTime.token_s`."""
    return np.asarray(time_s(np.arange(most + 1, dtype=np.float64)), dtype=np.float64)


def linear(fixed_s: float, prompt_token_s: float, decode_request_s: float, kv_token_s: float = 0.0, pair_s: float = 0.0) -> StepTime:
    """t = fixed + a x prompt tokens + b x decoding requests + c x cached tokens + d x query-key pairs."""
    return StepTime(fixed_s=fixed_s, prompt_s=prompt_token_s, request_s=decode_request_s, kv_s=kv_token_s, pair_s=pair_s)


def read_recorded(path: str | Path) -> StepTime:
    """Recorded step times: the column `total_time_s`, one row a batch, in order; no other column is read."""
    frame = read_csv(path, required=["total_time_s"], usecols=lambda name: name == "total_time_s")
    seconds = numbers(frame, "total_time_s", "seconds, not negative", path)
    if not seconds.size:
        raise InputError("there are no recorded steps", path=path, line=2)
    return StepTime(recorded=seconds)


@inner(_nrt=False)
def _interval(axis: Any, x: float) -> int:
    """The last interval of an ascending axis that begins below a value, or the first one."""
    low, high = 0, axis.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if axis[middle] < x else (low, middle)
    return low


@inner(error_model="numpy", _nrt=False)
def on_grid(x_axis: Any, y_axis: Any, values: Any, x: float, y: float) -> float:
    """Bilinear interpolation, continued beyond the axes."""
    i, j = _interval(x_axis, x), _interval(y_axis, y)
    u = (x - x_axis[i]) / (x_axis[i + 1] - x_axis[i])
    v = (y - y_axis[j]) / (y_axis[j + 1] - y_axis[j])
    low = values[i, j] + u * (values[i + 1, j] - values[i, j])
    high = values[i, j + 1] + u * (values[i + 1, j + 1] - values[i, j + 1])
    return low + v * (high - low)


@inner(error_model="numpy", _nrt=False)
def on_table(table: Any, count: int) -> float:
    """Entry of a table, continued beyond its end along its last slope."""
    last = table.size - 1
    if count <= last:
        return table[count]
    return table[last] + (count - last) * (table[last] - table[last - 1])


@inner(error_model="numpy", _nrt=False)
def step_time(steps: Steps, replica: Replica, size: int) -> float:
    """Seconds that a batch of `size` requests takes."""
    total, decodes, cached, context = 0, 0, 0, 0
    pairs, squares, chunks = 0.0, 0.0, 0.0
    for k in range(size):
        request, chunk = replica.requests[replica.batch[k]], replica.tokens[k]
        total += chunk
        if request.processed > request.prefill:
            decodes += 1
            cached += request.processed
        else:
            context += request.processed
            squares += float(chunk) * chunk
            pairs += chunk * (request.processed + 0.5 * (chunk + 1))
            if steps.prefill_each == 1:
                chunks += on_grid(steps.prefill_context, steps.prefill_chunk, steps.prefill_grid, float(request.processed), float(chunk))
    seconds = steps.fixed_s + on_table(steps.token_s, total)
    seconds += steps.prompt_s * (total - decodes) + steps.pair_s * pairs + steps.request_s * decodes + steps.kv_s * cached
    if squares > 0 and steps.prefill_grid.size > 0 and steps.prefill_each == 0:
        seconds += max(0.0, on_grid(steps.prefill_context, steps.prefill_chunk, steps.prefill_grid, float(context), np.sqrt(squares)))
    if decodes > 0 and steps.decode_grid.size > 0:
        mean = cached / decodes
        if steps.kv_rounding > 0:
            mean = np.ceil(mean / steps.kv_rounding) * steps.kv_rounding
        seconds += max(0.0, on_grid(steps.decode_requests, steps.decode_kv, steps.decode_grid, float(decodes), mean))
    seconds += on_table(steps.sequence_s, size) + chunks
    return max(seconds, steps.launch_s) if squares > 0 and total > steps.graph_tokens else seconds
