"""Stands for `analysis.compiled` in the page: functions stay as they are."""

# mypy: ignore-errors


def inner(function=None, **options):
    """The function as it is."""
    return function if function is not None else lambda given: given


def outer(function=None, **options):
    """The function as it is, which is also its plain form."""
    if function is None:
        return outer
    function.plain = function
    return function
