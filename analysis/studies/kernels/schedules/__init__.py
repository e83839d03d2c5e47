"""Which schedule of a fused mixture-of-experts kernel should be tried first?

- `data`: PipeWeave's schedule sweeps of a fused mixture-of-experts kernel:
- `ranking`: Which schedule to try first:
"""
