"""Fit and scores of the training predictor, and the baselines that it is compared with.

- `fit`: Which shares make the model agree with measured runs?
- `drawn_schedule`: The pipeline schedule of a predicted run
- `gap`: The composition gap of training, measured:
- `plan_choice`: Is the plan that we would recommend as good as the best that was measured?
- `schedule`: The pipeline schedule, task by task: plain and interleaved 1F1B, for pictures and to check the closed form
- `sensitivity`: How much does a predicted step move with each fitted share, and with each rate of the hardware?
- `sources`: Which measured training runs are there?
- `study`: How right is the training predictor on runs of a source that it has never seen?
- `tpus`: What share of its data-sheet peak does a TPU reach in large products?
"""
