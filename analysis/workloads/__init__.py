"""Workloads: what does a program compute?

- `checkpoints`: What does a Hugging Face `config.json` say about a model?
- `graph`: What does a program compute?
- `models`: What is a language model made of?
- `own_process`: Read one program and print its operator graph as JSON, in a process of its own
- `chakra/`: How are Chakra execution traces (`NAME.RANK.et`) read and written?
- `hlo/`: What does a StableHLO program compute, and what does each operator cost?
- `onnx/`: What does an ONNX file compute, and what does each operator cost?
"""
