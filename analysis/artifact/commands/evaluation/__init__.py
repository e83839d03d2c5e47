"""Commands that fetch data, measure and score tools.

- `blocks`: Throughput of basic blocks from measured ones:
- `core`: Rank designs of a CPU core by a learned model, and seal traces:
- `data`: Describe the data package;
- `hlo`: Lower a workload of the zoo, or a JAX function of your own, to StableHLO
- `measure`: Time operators on this machine's CPU, in JAX and NumPy, at the shapes of the committed campaign
- `measured`: The measured suite:
- `mtap`: MTAP:
"""
