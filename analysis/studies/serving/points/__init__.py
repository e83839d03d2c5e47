"""Fit and scores of the served points.

- `freeze`: Fit the shipped constants and freeze the scores:
- `study`: How right are the answers?
"""
