"""Batch schedulers, one file each; `names` lists them, `dispatch` calls the one that a replica has."""
