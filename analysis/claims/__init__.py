"""The ledger of every printed number of the five documents, how each is checked, and its verdict."""
