"""How many cycles does a basic block take on a CPU core?

- `data`: PMEvo's measured basic blocks:
- `graph_net`: A graph network on basic blocks:
- `ports`: Throughput of a basic block as the load of its busiest resource, with the loads inferred from measured blocks
"""
