"""Stands for pydantic in the page: classes with fields and defaults; what CPython has validated is not validated again."""

# mypy: ignore-errors


class _Missing:
    pass


class _Field:
    def __init__(self, default=_Missing, default_factory=None, **rules):
        self.default, self.default_factory = default, default_factory


def Field(default=_Missing, default_factory=None, **rules):
    """A field's default; its rules were checked at build time."""
    return _Field(default, default_factory)


def model_validator(**options):
    """The function as it is."""
    return lambda function: function


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

    def model_copy(self, update=None):
        """The same with some fields changed."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(update or {})
        return copy
