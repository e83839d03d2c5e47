"""Stands for `analysis.errors` in the page: the one class, with its message."""

# mypy: ignore-errors


def shown(text, longest=1000):
    """Text as a message repeats it: cut in the middle where it is long."""
    return text if len(text) <= longest else f"{text[: longest * 2 // 3]}...{text[-longest // 4 :]}"


class InputError(ValueError):
    """A wrong input, with its key."""

    def __init__(self, message, path=None, line=None, key=None):
        super().__init__(message if key is None else f"{key}: {message}")
        self.message, self.path, self.line, self.key = message, path, line, key
