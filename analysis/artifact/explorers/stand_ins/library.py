"""Stands for what models take of typing, collections.abc, dataclasses, functools, fnmatch and html; Brython's own take a second to load."""

# mypy: ignore-errors


class _Mark:
    def __getitem__(self, item):
        return self

    def __call__(self, *given, **options):
        return self


Annotated = Any = Callable = ClassVar = Collection = Iterable = Iterator = Literal = Mapping = Self = Sequence = TypeVar = _Mark()


class Generic:
    """A base class without a say."""

    def __class_getitem__(cls, item):
        return cls


class NamedTuple(tuple):
    """Fields by their annotations."""

    def __init_subclass__(cls):
        cls._fields = tuple(cls.__annotations__)

    def __new__(cls, *given, **named):
        rest = cls._fields[len(given) :]
        made = tuple.__new__(cls, [*given, *(named[name] if name in named else getattr(cls, name) for name in rest)])
        made.__dict__.update(zip(cls._fields, made, strict=True))
        return made

    def _replace(self, **changes):
        return type(self)(**{**dict(zip(self._fields, self, strict=True)), **changes})


class _Field:
    def __init__(self, default_factory):
        self.default_factory = default_factory


def field(default_factory):
    """A default that is made anew for each object."""
    return _Field(default_factory)


def dataclass(kind=None, **options):
    """Fields by their annotations, in order; objects are equal where their fields are."""
    if kind is None:
        return dataclass
    names = list(dict.fromkeys(name for each in reversed(kind.__mro__) for name in each.__dict__.get("__annotations__", {})))  # noqa: RUF063

    def __init__(self, *given, **named):
        values = {**dict(zip(names, given, strict=False)), **named}
        for name in names:
            value = values[name] if name in values else getattr(kind, name)
            self.__dict__[name] = value.default_factory() if isinstance(value, _Field) else value
        if hasattr(kind, "__post_init__"):
            self.__post_init__()

    kind.__init__ = __init__
    kind.__eq__ = lambda self, other: type(self) is type(other) and self.__dict__ == other.__dict__
    kind.__hash__ = lambda self: hash(tuple(self.__dict__[name] for name in names))
    return kind


def cache(function):
    """What was answered is kept."""
    kept = {}

    def remembered(*given, **named):
        key = (given, tuple(named.items()))
        if key not in kept:
            kept[key] = function(*given, **named)
        return kept[key]

    return remembered


def lru_cache(maxsize):
    """The same; a page is short."""
    return cache


class cached_property:
    """An attribute that is worked out when it is first read."""

    def __init__(self, function):
        self.function = function

    def __get__(self, owner, kind=None):
        if owner is None:
            return self
        found = owner.__dict__[self.function.__name__] = self.function(owner)
        return found


def fnmatchcase(text, pattern):
    """Whether a text has a pattern's form; of its signs the star alone."""
    first, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    if not (text.startswith(first) and text.endswith(parts[-1]) and len(text) >= len(first) + len(parts[-1])):
        return False
    at = len(first)
    for part in parts[:-1]:
        at = text.find(part, at, len(text) - len(parts[-1])) + len(part)
        if at < len(part):
            return False
    return True


def escape(text):
    """Text without signs that HTML reads as markup."""
    for sign, code in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot"), ("'", "#x27")):
        text = text.replace(sign, f"&{code};")
    return text
