"""The timeline of a replay: a Gantt chart, and the JSON that Perfetto opens.

Both read the `timeline` table of `replay.Replay`: rank, node_id, name, slot, start, end (cycles of 1 ns).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SLOTS = ("compute", "communication", "host")


def perfetto_bytes(timeline: pd.DataFrame) -> bytes:
    """The timeline in Chrome's trace event format (open it at ui.perfetto.dev): a process a rank, a thread a hardware slot.

    Args:
        timeline: table of a replay. Times in the file are microseconds.
    """
    events: list[dict] = []
    for rank in sorted(timeline["rank"].unique().tolist()):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
        for thread, slot in enumerate(SLOTS):
            events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": thread, "args": {"name": slot}})
    shown = timeline[timeline["slot"].isin(SLOTS)]
    columns = (shown[name].tolist() for name in ("rank", "node_id", "name", "slot", "start", "end"))
    for rank, node, name, slot, start, end in zip(*columns, strict=True):
        events.append(
            {
                "ph": "X",
                "name": name or f"node {node}",
                "cat": slot,
                "pid": rank,
                "tid": SLOTS.index(slot),
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {"node": node},
            }
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":")).encode()


def gantt(axes: Axes, timeline: pd.DataFrame, ranks: list[int], colors: tuple[str, str]) -> None:
    """Draw the timeline: for each rank a bar of compute and below it one of communication; time in milliseconds."""
    colours = dict(zip(("compute", "communication"), colors, strict=True))
    labels: list[str] = []
    for position, rank in enumerate(ranks):
        for lane, slot in enumerate(colours):
            part = timeline[(timeline["rank"] == rank) & (timeline["slot"] == slot)]
            spans = [(start / 1e6, (end - start) / 1e6) for start, end in zip(part["start"], part["end"], strict=True)]
            axes.broken_barh(spans, (2 * position + lane - 0.4, 0.8), facecolor=colours[slot], edgecolor="white", linewidth=0.15)
            labels.append(f"rank {rank} {slot}")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("time (ms)")
