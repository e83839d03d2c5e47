"""MTAP: from evidence to grades to a score, and how much of the result hangs on the weights and on the rubric's wording.

- `arithmetic`: Small questions about MTAP that a printed claim asks
- `evidence`: What is known about a tool:
- `gaps`: Where the printed rubric is silent or contradicts itself, found by trying every kind of evidence there can be
- `grading`: From evidence to grades, mechanically, with the reason for each
- `measured`: What do measurements by others say of a tool's predictions?
- `readings`: Other readings of the printed rubric:
- `report`: One tool's assessment in plain text, and as a table
- `rubric`: The rubric as data:
- `scoring`: Composite scores, ranks with ties, and what happens when a dimension is left out
- `sensitivity_tables`: How much scores and orders hang on weights, wording and five tools, as tables
- `simplex`: The whole weight simplex:
- `tables`: Scores side by side, and the reasons and evidence behind them, as tables
- `trials/`: How long from nothing to a first prediction, tool by tool, installed live; and does it still work a year later?
"""
