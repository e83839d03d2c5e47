"""Which mapping of a layer on a design is the best, and is that proven?

- `space`: the mappings that a design allows; `best_mapping`: the search as callers use it; `random_search`: random, annealing.
- `search`: branch and bound, compiled, with `inner` (the least that everything inside the two outermost levels can cost) and `orders`
  (loop orders that need to be visited).
"""
