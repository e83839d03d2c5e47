"""Other people's end-to-end measurements: rows (in one schema), clean (what is wrong with a row), score (grades), freeze (the studies)."""
