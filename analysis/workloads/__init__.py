"""Workloads: what does a program compute?

- `checkpoints`: What does a Hugging Face `config.json` say about a model?
- `graph`: What does a program compute?
- `models`: What is a language model made of?
- `chakra/`: How are Chakra execution traces (`NAME.RANK.et`) read and written?
- `hlo/`: What does a StableHLO program compute, and what does each operator cost?
"""
