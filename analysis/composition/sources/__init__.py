"""How far off are served times on a source that calibrated nothing? Other people's runs -> answers of the benchmark's fit -> spread.

rows (measured time per output token of each source, and ours), spread (how much wider an interval must be elsewhere, and scores), freeze
(both, as frozen tables and a constant)
"""
