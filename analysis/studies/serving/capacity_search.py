"""How many requests a second may a replica be given under a bound, by scheduler, number of requests and routing?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from analysis.serving.capacity import Bound, Capacity, at_rate, capacity
from analysis.serving.simulate import Result, simulate
from analysis.studies.serving.load import Mix, draw, profile


@dataclass(frozen=True)
class Search:
    """One search: requests of a mix, drawn with a seed, under a scheduler, on replicas."""

    mix: Mix
    scheduler: str
    bounds: tuple[Bound, ...]
    count: int
    seed: int
    replicas: int = 1
    routing: str = "round_robin"
    tolerance: float = 0.01

    def run(self) -> Capacity:
        """The largest rate that meets the bounds."""
        requests = draw(self.mix, 1.0, self.count, self.seed)

        def serve(rate_per_s: float) -> Result:
            given = at_rate(requests, rate_per_s)
            return simulate(given, self.scheduler, profile(), self.mix.limits, self.replicas, self.routing, self.seed)

        return capacity(serve, list(self.bounds), self.tolerance)


def measure(search: Search) -> dict[str, float | str]:
    """A row: what was searched, and the rate found."""
    found = search.run()
    shown = {
        f.name: getattr(search, f.name)
        for f in dataclasses.fields(search)
        if f.name in ("scheduler", "count", "seed", "replicas", "routing")
    }
    bounds = {bound.name: bound.most_s for bound in search.bounds}
    return {"mix": search.mix.name, **shown, **bounds, "rate_per_s": found.rate_per_s, "bound_by": " ".join(found.bound_by)}
