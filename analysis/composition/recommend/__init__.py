"""Which plan meets a target at least cost, and how sure is that? A search over what `predict serving` and `predict training` answer.

serving, training (all plans of a question, each answered) -> choice (the cheapest that meets the target, as a table or as text)
"""
