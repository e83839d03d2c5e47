"""Other people's end-to-end measurements, and who is right about them.

rows (in one schema), clean (what is wrong with a row), score (grades), tools (predictors beside each other), freeze (the studies)
"""
