"""Notebook runner, figures and tables with provenance, numbers for prose, the book.

- `plan` (which notebooks are out of date) -> `build` (runs them) -> `warm` (a process that has imported what all need, forked for each) ->
  `execute` (one notebook): `run` writes its tables, figures and numbers, `theme` is the look of figures, `trace` notes what was used.
- `package`: the description of all data. `book` (pages from chapters and results), by the Sphinx extension `pages`; `pdf` (the book as one
  file), `paper` (the article). `check`: is what was built what is expected?
- `environment`: what is made from the lock; `readme`: the sample and the accuracies of README.md;
  `house_map`: the picture of this package; `fetching`: datasets of others.
"""
