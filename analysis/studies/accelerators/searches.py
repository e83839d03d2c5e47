"""Three searches that draw mappings, as the study of searches compares them: random, simulated annealing, genetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analysis.accelerators.loopnest.tables import Array
from analysis.accelerators.mapper.random_search import Sampler, annealing


def random_search(sampler: Sampler, budget: int, seed: int) -> Array:
    """Best energy-delay product after each of `budget` evaluations, points drawn independently."""
    rng = np.random.default_rng(seed)
    return np.minimum.accumulate(sampler.edp([sampler.draw(rng) for _ in range(budget)]))


def genetic(sampler: Sampler, budget: int, seed: int, *, population: int = 100, mutation: float = 0.7, elite: int = 5) -> Array:
    """A genetic search with tournaments of two: the best after each evaluation.

    Args:
        population: points in a generation.
        mutation: chance that a child is changed, and changed again.
        elite: points that survive unchanged.
    """
    rng = np.random.default_rng(seed)
    people = [sampler.draw(rng) for _ in range(population)]
    values = sampler.edp(people)
    history = [values]
    spent = population
    while spent < budget:
        best_first = np.argsort(values, kind="stable")
        children = []
        for _ in range(min(population - elite, budget - spent)):
            parents = [min(rng.integers(len(people), size=2), key=lambda i: values[i]) for _ in range(2)]
            child = sampler.cross(people[parents[0]], people[parents[1]], rng)
            while rng.random() < mutation:
                child = sampler.change(child, rng)
            children.append(child)
        found = sampler.edp(children)
        spent += len(children)
        history.append(found)
        kept = best_first[:elite]
        people = [people[i] for i in kept] + children
        values = np.concatenate([values[kept], found])
    return np.minimum.accumulate(np.concatenate(history)[:budget])


SEARCHES: dict[str, Callable[..., Array]] = {"random": random_search, "annealing": annealing, "genetic": genetic}
