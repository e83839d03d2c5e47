"""Which schedule of a fused mixture-of-experts kernel should be tried first?

- `data`: PipeWeave's sweeps of near-best configurations; `ranking`: a cost model trained to rank, compared with orders without training.
"""
