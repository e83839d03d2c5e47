"""The book's machinery and the evidence: what only this repository needs, and no answer does.

- `claims/`: The ledger of every printed number of the five documents, how each is checked, and its verdict
- `commands/`: Commands of the repository and of its evidence; no logic of their own
- `explorers/`: Figures that a reader can touch: each runs this project's own models, in the page, without a network
- `measuring/`: How long do operators take on this machine's CPU, and how noisy was it? The shapes are those of the committed campaign
- `mtap/`: MTAP: from evidence to grades to a score, and how much of the result hangs on the weights and on the rubric's wording
- `publishing/`: Notebook runner, figures and tables with provenance, numbers for prose, the book
- `survey/`: Bibliography, tool table, taxonomy, coverage
"""
