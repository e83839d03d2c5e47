"""The ledger of every printed number of the five documents, how each is checked, and its verdict.

- `addresses`: What does a page print by the address of a cell:
- `arithmetic`: What do plain sums over printed tables give?
- `arithmetic_neuroscalar`: What follows from NeuroScalar's own numbers:
- `arithmetic_survey`: What follows from the survey's own numbers:
- `blindness`: How blind is a score?
- `check`: What is the verdict on every claim, and is it the expected one?
- `check_files`: How is each claim checked, and what is the answer expected to be?
- `contradictions`: Which contradictions matter most, and what is the arithmetic of each?
- `equations`: Do the ML survey's equations give the right answer on examples small enough to work by hand?
- `findings`: What do we find in the documents that none of them claims:
- `ledger`: Which claims do the five documents make?
- `prose`: Which numbers does a chapter take from results, and which does it quote?
- `report`: How many claims have which verdict, and which of them are not as expected?
- `results`: What do the results of the notebooks say, and are they as the notebooks wrote them?
- `verdicts`: Does the value got agree with the value printed, by how much not, and what stands behind it:
"""
