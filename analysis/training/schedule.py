"""In which order does a pipeline's stage run its passes? Plain and interleaved 1F1B."""

from __future__ import annotations

from analysis.errors import InputError


def task_order(stage: int, stages: int, microbatches: int, interleave: int) -> list[tuple[str, int, int]]:
    """Order in which a stage runs its passes: (phase, chunk, microbatch).

    1F1B (interleave 1): stages - 1 - stage forwards, then one forward and one backward in turn, then the remaining backwards.
    Interleaved: 2 (stages - 1 - stage) + (interleave - 1) stages forwards first; microbatches go through the chunks in groups of `stages`.

    Source: Narayanan et al. 2021, section 2.2 and figure 4.
    """
    if interleave > 1 and microbatches % stages:
        raise InputError(f"{microbatches} microbatches over {stages} stages (interleaved)", key="microbatches")
    passes = microbatches * interleave
    if interleave == 1:
        warm_up = min(stages - 1 - stage, passes)
    else:
        warm_up = min(2 * (stages - 1 - stage) + (interleave - 1) * stages, passes)

    def forward(index: int) -> tuple[str, int, int]:
        chunk = index % (stages * interleave) // stages if interleave > 1 else 0
        microbatch = index // (stages * interleave) * stages + index % stages if interleave > 1 else index
        return "forward", chunk, microbatch

    def backward(index: int) -> tuple[str, int, int]:
        _, chunk, microbatch = forward(index)
        return "backward", interleave - 1 - chunk, microbatch

    order = [forward(index) for index in range(warm_up)]
    for index in range(passes - warm_up):
        order += [forward(warm_up + index), backward(index)]
    return order + [backward(index) for index in range(passes - warm_up, passes)]
