"""The ledger of every printed number of the five documents, how each is checked, and its verdict.

- `ledger` (which claims there are), `check_files` (how each is checked, what to expect) -> the value got: a cell of `results`, or a
  function of `arithmetic`, `arithmetic_survey`, `arithmetic_neuroscalar`, `equations` -> `verdicts` (does it agree, and what stands behind
  it) -> `check` (is that the verdict written down) -> `report`.
- What we say beyond the documents: `findings`, `contradictions`. Which requirements are met: `requirements`.
- Numbers in prose: `addresses` (a cell of a table, named in a sentence), `prose` (numbers typed by hand that a result gives).
"""
