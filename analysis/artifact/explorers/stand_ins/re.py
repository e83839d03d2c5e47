"""Stands for re in the page: the browser's own expressions, as far as the models use them; Python's take half a second to load."""

# mypy: ignore-errors

from browser import window
from javascript import NULL, UNDEFINED

IGNORECASE = 2
VERBOSE = DOTALL = MULTILINE = ASCII = 0  # VERBOSE: the page's own module `string` asks for it
TEXT = window.String.prototype


class Match:
    """Groups of what was found."""

    def __init__(self, found):
        self.found = found

    def __getitem__(self, group):
        text = self.found[group]
        return None if text is UNDEFINED else text


class Pattern:
    """An expression; translated when it is first used."""

    def __init__(self, pattern, flags):
        self.pattern, self.flags = pattern, "i" if flags & IGNORECASE else ""

    def _exec(self, form, text):
        found = window.RegExp.new(form.replace("E", f"(?:{self.pattern})"), self.flags).exec(text)
        return None if found is NULL else Match(found)

    def match(self, text):
        """At the beginning."""
        return self._exec("^E", text)

    def fullmatch(self, text):
        """The whole text."""
        return self._exec("^E$", text)


def compile(pattern, flags=0):
    """The expression."""
    return Pattern(pattern, flags)


def findall(pattern, text):
    """What an expression without groups finds."""
    return list(TEXT.match.call(text, window.RegExp.new(pattern, "g")) or [])


def sub(pattern, instead, text):
    """The text with something else in place of what is found."""
    return TEXT.replace.call(text, window.RegExp.new(pattern, "g"), instead.replace("$", "$$"))


def split(pattern, text):
    """The text between what an expression without groups finds."""
    return list(TEXT.split.call(text, window.RegExp.new(pattern)))
