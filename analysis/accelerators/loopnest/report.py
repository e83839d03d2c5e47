"""An evaluation in the words of Timeloop's statistics."""

from __future__ import annotations

from typing import Any

from analysis.accelerators.loopnest.evaluation import Accesses, Evaluation


def statistics(accesses: Accesses) -> dict[str, float]:
    """Timeloop's statistics of one tensor at one level; energies in pJ."""
    every = accesses.total * accesses.instances
    return {
        "Partition size": accesses.partition_words,
        "Utilized capacity": accesses.tile_words,
        "Utilized instances (max)": accesses.instances,
        "Scalar reads (per-instance)": accesses.reads,
        "Scalar fills (per-instance)": accesses.fills,
        "Scalar updates (per-instance)": accesses.updates,
        "Temporal reductions (per-instance)": accesses.temporal_reductions,
        "Energy (per-scalar-access)": accesses.energy_j * 1e12 / every if every else 0.0,
        "Energy (total)": accesses.energy_j * 1e12,
    }


def report(evaluation: Evaluation) -> dict[str, Any]:
    """What the `loopnest` command writes: cycles, energy_uj, utilization, what bound it, energy by level, and every access count."""
    return {
        "cycles": evaluation.cycles,
        "energy_uj": evaluation.energy_j * 1e6,
        "utilization": evaluation.utilization,
        "macs": evaluation.macs,
        "compute_cycles": evaluation.compute_cycles,
        "bound_by": evaluation.bound_by,
        "energy_by_level_uj": {level: energy * 1e6 for level, energy in evaluation.energy_by_level().items()},
        "accesses": [
            {"level": a.level, "dataspace": a.tensor, "stat": stat, "value": value}
            for a in evaluation.accesses
            for stat, value in statistics(a).items()
        ],
    }
