"""Datasets of others: `fetch` (what `make data` does), `download` (to an announced size and checksum), `wheel` (a dataset inside a Python

- `convert`: Original files of other people's datasets, and the tables that are made of them:
- `convert_measured`: Measured systems as tables:
- `convert_neusight`: NeuSight's kernel measurements as one table an operator group and vendor, and its device files as one table
- `convert_pmevo`: PMEvo's experiment lists as one table:
- `download`: Fetches one pinned file:
- `fetch`: Fetches other people's datasets:
- `wheel`: Fetches a pinned wheel of the package index, by hash;
"""
