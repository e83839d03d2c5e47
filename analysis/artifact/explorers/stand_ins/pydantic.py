"""Stands for pydantic in the page: classes with fields and defaults; what CPython has validated is not validated again."""

# mypy: ignore-errors

import sys


class _Missing:
    pass


class _Field:
    def __init__(self, default=_Missing, default_factory=None, **rules):
        self.default, self.default_factory, self.rules = default, default_factory, rules


class _Check:
    def __init__(self, function, mode):
        self.function, self.mode = function, mode


class ValidationError(ValueError):
    """What is wrong with one field."""

    def errors(self):
        """The one error: where, and what."""
        return [{"loc": self.args[0], "msg": self.args[1]}]


BOUNDS = {"gt": ("greater than", lambda a, b: a > b), "ge": ("greater than or equal to", lambda a, b: a >= b)}


def Field(default=_Missing, default_factory=None, **rules):
    """A field's default, and the rules that `model_validate` checks."""
    return _Field(default, default_factory, **rules)


def model_validator(mode):
    """A check that `model_validate` runs."""
    return lambda function: _Check(function, mode)


class BeforeValidator:
    """A mark in a type; not run."""

    def __init__(self, function):
        self.function = function


AfterValidator = BeforeValidator


class ConfigDict(dict):
    """Options of a class; not read."""


class BaseModel:
    """Fields and defaults, not validated."""

    def __init_subclass__(cls, **options):
        cls.model_fields = {name: None for kind in reversed(cls.__mro__) for name in getattr(kind, "__annotations__", {})}

    def __init__(self, **given):
        for kind in reversed(type(self).__mro__):
            for name in getattr(kind, "__annotations__", {}):
                value = kind.__dict__.get(name, _Missing)
                if isinstance(value, _Field):
                    value = value.default_factory() if value.default_factory else value.default
                if value is not _Missing:
                    self.__dict__[name] = value
        self.__dict__.update(given)

    @classmethod
    def model_validate(cls, raw, where=()):
        """An object from nested mappings: fields that are classes of their own, bounds of numbers, and the class's own checks."""
        checks = [value for kind in reversed(cls.__mro__) for value in kind.__dict__.values() if isinstance(value, _Check)]
        try:
            for check in checks:
                if check.mode == "before":
                    raw = check.function.__func__(cls, raw)
            given = {}
            for name, value in raw.items():
                kind = getattr(sys.modules[cls.__module__], str(cls.__annotations__[name]).split(" ")[0], None)
                given[name] = (
                    kind.model_validate(value, (*where, name)) if isinstance(value, dict) and hasattr(kind, "model_validate") else value
                )
                rules = getattr(cls.__dict__.get(name), "rules", {})
                for rule, (words, holds) in BOUNDS.items():
                    if rule in rules and value is not None and not holds(value, rules[rule]):
                        raise ValidationError((*where, name), f"Input should be {words} {rules[rule]}")
            made = cls(**given)
            for check in checks:
                if check.mode == "after":
                    check.function(made)
        except ValueError as error:
            raise error if isinstance(error, ValidationError) else ValidationError(where, f"Value error, {error}") from None
        return made

    def model_copy(self, update=None):
        """The same with some fields changed."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(update or {})
        return copy
