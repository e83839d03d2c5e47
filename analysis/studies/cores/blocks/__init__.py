"""How many cycles does a basic block take on a CPU core, and how well do models of it do on blocks left out?

- `data`: PMEvo's measured basic blocks:
- `freeze`: The basic-block study in full:
- `ports`: Throughput of a basic block as the load of its busiest resource, with the loads inferred from measured blocks
- `trial`: Predictors of basic blocks on held-out blocks and on blocks with instructions never seen;
"""
