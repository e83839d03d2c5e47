"""The ledger of every printed number and its verdict."""
