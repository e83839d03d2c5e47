"""Stands for `analysis.errors` in the page: the one class, with its message."""

# mypy: ignore-errors


class InputError(ValueError):
    """A wrong input, with its key."""

    def __init__(self, message, path=None, line=None, key=None):
        super().__init__(message if key is None else f"{key}: {message}")
        self.message, self.path, self.line, self.key = message, path, line, key
