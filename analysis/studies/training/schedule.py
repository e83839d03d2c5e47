"""The pipeline schedule, task by task: plain and interleaved 1F1B, for pictures and to check the closed form."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError
from analysis.training.schedule import task_order


@dataclass(frozen=True)
class Task:
    """One pass of one microbatch through one model chunk of one stage."""

    stage: int
    chunk: int
    microbatch: int
    phase: str
    start_s: float
    end_s: float


def simulate(forward_s: list[float], backward_s: list[float], microbatches: int, interleave: int = 1, send_s: float = 0.0) -> list[Task]:
    """Start and end of every pass, each as early as its stage and its inputs allow.

    Args:
        microbatches, interleave: counts; send_s: time on the way between stages (s).
        forward_s, backward_s: one microbatch through each stage, all its chunks together (s).
    Returns:
        tasks ordered by start, then stage.
    """
    stages = len(forward_s)
    orders = [task_order(stage, stages, microbatches, interleave) for stage in range(stages)]
    position, free = [0] * stages, [0.0] * stages
    done: dict[tuple[str, int, int], float] = {}
    last = stages * interleave - 1
    tasks: list[Task] = []
    remaining = sum(map(len, orders))
    while remaining:
        progressed = False
        for stage in range(stages):
            while position[stage] < len(orders[stage]):
                phase, chunk, microbatch = orders[stage][position[stage]]
                depth = chunk * stages + stage
                if phase == "forward":
                    needs = [("forward", depth - 1, microbatch)] if depth > 0 else []
                else:
                    needs = [("backward", depth + 1, microbatch) if depth < last else ("forward", depth, microbatch)]
                if any(need not in done for need in needs):
                    break
                ready = max((done[need] + (0.0 if need[1] == depth else send_s) for need in needs), default=0.0)
                start = max(ready, free[stage])
                end = start + (forward_s if phase == "forward" else backward_s)[stage] / interleave
                done[phase, depth, microbatch] = end
                free[stage] = end
                tasks.append(Task(stage, chunk, microbatch, phase, start, end))
                position[stage] += 1
                remaining -= 1
                progressed = True
        if not progressed:
            raise InputError("the schedule waits for itself", key="interleave")
    return sorted(tasks, key=lambda task: (task.start_s, task.stage))


def makespan_s(tasks: list[Task]) -> float:
    """End of the last task (s)."""
    return max(task.end_s for task in tasks)


def bubble_share(tasks: list[Task]) -> float:
    """Share of the stages' time in which nothing runs (1)."""
    stages = 1 + max(task.stage for task in tasks)
    return 1 - sum(task.end_s - task.start_s for task in tasks) / (stages * makespan_s(tasks))
