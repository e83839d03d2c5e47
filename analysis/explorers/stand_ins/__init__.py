"""What replaces compiled libraries and files in the page, as far as the explorers' models need them; never imported by CPython.

Each file takes the place of the module of its name (`files` of `analysis.configs` and `analysis.paths`). That the answers stay the
same is tested in a browser, at random points, against the real libraries (`tests/explorers`).
"""
