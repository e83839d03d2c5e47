"""How many cycles does a basic block take on a CPU core?

- `data`: PMEvo's measured blocks; `ports`: throughput as the load of the busiest resource, inferred; `graph_net`: a graph network.
- `trial`: predictors on held-out blocks and unseen instructions, with baselines; `freeze`: the study in full.
"""
