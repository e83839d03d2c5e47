"""Promised speed of the training models."""

from __future__ import annotations

from analysis.bench.report import Benchmark, cpu_s


def _search() -> float:
    from analysis.training.search import Cluster, search

    cluster = Cluster(model="llama-3-70b", system="HGX-H100", gpus=1024, global_batch=1024, sequence_length=8192)
    return cpu_s(lambda: search(cluster))


def _validation() -> float:
    from analysis.training import calibrate, published
    from analysis.training.kernel_time import efficiencies_of

    return cpu_s(lambda: calibrate.errors(published.korthikanti_cases(), efficiencies_of("A100-SXM4-80GB")))


def _all_reduces() -> float:
    import numpy as np

    from analysis.networks.measured_fabrics.model import all_reduce, link_of

    sizes = np.geomspace(1e3, 1e10, 1_000_000)
    link = link_of("A100", 8)
    all_reduce(sizes[:10], link)
    return sizes.size / cpu_s(lambda: all_reduce(sizes, link))


def benchmarks() -> list[Benchmark]:
    """Plan search over 1,024 GPUs, the eight published batch times, and calibrated all-reduces."""
    return [
        Benchmark("training: plan search, 1,024 GPUs", _search, "s", 10.0, "max", "every plan of Llama 3 70B on 1,024 H100, CPU-seconds"),
        Benchmark("training: eight published batch times", _validation, "s", 1.0, "max", "reading the table included, CPU-seconds"),
        Benchmark("networks: calibrated all-reduces", _all_reduces, "1/s", 1e6, "min", "a million sizes in one call, CPU-seconds"),
    ]
