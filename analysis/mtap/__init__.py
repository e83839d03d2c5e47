"""MTAP: from evidence to grades to a score, and how much of the result hangs on the weights and on the rubric's wording.

- `evidence` (what is known of a tool; `measured` adds what others measured) and `rubric` (levels with conditions) -> `grading` (grades with
  reasons) -> `scoring` (composite scores and ranks) -> `report` (one tool), `tables` (tools side by side).
- How much hangs on it: `simplex` (all weightings), `readings` (other wordings), `sensitivity_tables` (both, and five tools, as tables);
  `gaps`: where the rubric is silent or contradicts itself.
- `arithmetic`: what printed claims ask of MTAP; `random_weights`: one tool whose weight file is missing.
- `trials`: other tools installed live, from nothing to a first prediction.
"""
