"""Stands for `analysis.studies.checkable` in the page: the mark says nothing there."""

# mypy: ignore-errors


def checkable(function):
    """The function as it is."""
    return function
