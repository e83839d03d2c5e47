"""Batch schedulers, one file each; `dispatch` lists them."""
