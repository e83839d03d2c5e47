"""Stands for numba in the page: functions stay as they are."""

# mypy: ignore-errors


def njit(*given, **options):
    """The function as it is."""
    if given and callable(given[0]):
        return given[0]
    return lambda function: function
