"""What explorers show besides models: measurements, grades, answers computed in advance.

In the page, each file is replaced by what its functions return (`bundle.RETURNED`).
"""
