"""Target speeds of the loop-nest model and the mapper."""

from __future__ import annotations

from functools import partial

import numpy as np

from analysis.bench.report import Benchmark, cpu_s

LAYERS = {
    "c5_c": (512, 2048, 7, 7, 1, 1, 1, 2.067),
    "c2_c": (64, 256, 56, 56, 1, 1, 1, 4.475),
    "c3_c": (128, 512, 28, 28, 1, 1, 1, 4.401),
    "conv1": (3, 64, 112, 112, 7, 7, 2, 8.291),
    "c4_b": (256, 256, 14, 14, 3, 3, 1, 2.083),
    "c2_b": (64, 64, 56, 56, 3, 3, 1, 3.846),
}


def _setting(name: str):  # type: ignore[no-untyped-def]
    from analysis.accelerators.loopnest.architecture import read_architecture
    from analysis.accelerators.loopnest.problem import convolution
    from analysis.paths import DATA

    c, m, p, q, r, s, stride, cpu_s = LAYERS[name]
    return convolution(c=c, m=m, p=p, q=q, r=r, s=s, stride=stride), read_architecture(DATA / "recorded/timeloop/architecture.yaml"), cpu_s


def _valid(name: str, wanted: int, seed: int):  # type: ignore[no-untyped-def]
    """Random mappings that fit, as stacked layouts, with the sampler they come from."""
    from analysis.accelerators.mapper.random_search import Genome, Sampler

    problem, architecture, _ = _setting(name)
    sampler, rng = Sampler(problem, architecture), np.random.default_rng(seed)
    kept: list[Genome] = []
    while len(kept) < wanted:
        drawn = [sampler.draw(rng) for _ in range(2000)]
        kept += [g for g, fits in zip(drawn, sampler.price(drawn)[2], strict=True) if fits]
    return sampler, kept[:wanted]


def counted_per_second() -> float:
    """Valid random mappings of two layers counted in a CPU-second, all counts kept."""
    from analysis.accelerators.loopnest.fast import count_many

    total, spent = 0, 0.0
    for name in ("conv1", "c4_b"):
        sampler, genomes = _valid(name, 20_000, seed=0)
        layouts = [np.concatenate([a] * 5) for a in sampler.layouts(genomes)]
        n = len(layouts[0])
        results = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros((n, 6, 3, 5), dtype=np.int64)
        spent += cpu_s(partial(count_many, sampler.tab, sampler.problem.macs, *layouts, sampler.work, *results))
        total += n
    return total / spent


def differing() -> float:
    """Of 10,000 random valid mappings, how many the compiled path counts otherwise than the reference path."""
    from analysis.accelerators.loopnest.evaluation import evaluate
    from analysis.accelerators.loopnest.fast import count_many
    from analysis.accelerators.loopnest.tables import to_mapping

    wrong = 0
    for seed, name in enumerate(LAYERS):
        sampler, genomes = _valid(name, 1667, seed)
        n = len(genomes)
        energy, cycles, over = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        counts = np.zeros((n, 6, 3, 5), dtype=np.int64)
        count_many(sampler.tab, sampler.problem.macs, *sampler.layouts(genomes), sampler.work, energy, cycles, over, counts)  # type: ignore[call-arg]
        names = [level.name for level in sampler.architecture.levels]
        tensors = [tensor.name for tensor in sampler.problem.tensors]
        for i, genome in enumerate(genomes):
            mapping = to_mapping(sampler.problem, sampler.architecture, sampler.layout(genome))
            expected = evaluate(sampler.problem, sampler.architecture, mapping)
            same = expected.cycles == cycles[i] and abs(expected.energy_j / energy[i] - 1) < 1e-12
            for a in expected.accesses:
                got = counts[i, names.index(a.level), tensors.index(a.tensor)]
                same &= list(got) == [a.reads, a.fills, a.updates, a.tile_words, a.partition_words]
            wrong += not same
    return float(wrong)


def slowest_search() -> float:
    """Largest ratio, over the recorded layers, of this mapper's CPU time to that of Timeloop's recorded random search."""
    from analysis.accelerators.mapper.best_mapping import best_mapping

    ratios = []
    for name in LAYERS:
        problem, architecture, recorded = _setting(name)
        assert best_mapping(problem, architecture, "edp").proven
        ratios.append(cpu_s(partial(best_mapping, problem, architecture, "edp")) / recorded)
    return max(ratios)


def pruned_per_second() -> float:
    """Tilings of conv1's space settled in a CPU-second, by bounds or by pricing; orders not multiplied in."""
    from analysis.accelerators.mapper.best_mapping import best_mapping

    problem, architecture, _ = _setting("conv1")
    best_mapping(problem, architecture, "edp")
    found = best_mapping(problem, architecture, "edp")
    return found.tilings / found.cpu_s


def benchmarks() -> list[Benchmark]:
    """The figures promised for loop nests."""
    return [
        Benchmark("valid mappings counted", counted_per_second, "1/CPU-s", 200_000, "min", "Timeloop: 286 valid, about 2,000 considered"),
        Benchmark("10,000 random valid mappings that differ from the reference path", differing, "mappings", 0, "max"),
        Benchmark(
            "proven search against Timeloop's random search", slowest_search, "of its CPU-s", 0.1, "max", "worst of six layers, compiled"
        ),
        Benchmark("tilings settled with pruning", pruned_per_second, "1/CPU-s", 1_000_000, "min", "orders not counted; reported apart"),
    ]
