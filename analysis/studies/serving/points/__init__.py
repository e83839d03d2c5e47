"""Fit and scores of the served points.

- `fit`: How are the constants of served points fitted?
- `freeze`: Fit the shipped constants and freeze the scores:
- `plan_choice`: Is the recommended plan as good as the best that was measured?
- `study`: How right are the answers?
"""
