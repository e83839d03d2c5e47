"""The repository itself: notebooks, pages, ledger, records (in a clone only)"""
