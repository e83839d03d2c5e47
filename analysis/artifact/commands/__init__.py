"""Commands of the repository and of its evidence; no logic of their own.

- `evaluation/`: Commands that fetch data, measure and score tools
- `repository/`: Commands that build, check and publish the repository
"""
