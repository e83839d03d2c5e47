"""How far off are served times on a source that calibrated nothing? Other people's runs -> the benchmark's answers -> what they tell.

rows (measured times of each source, and ours), spread (how much longer they take and how wide an interval must be there, each source as the
others tell; scores), freeze (all of it, as frozen tables and constants)
"""
