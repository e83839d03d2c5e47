"""Damaged copies of valid files: bits, bytes, lines, cells, brackets, numbers, and what has hurt readers before."""

from __future__ import annotations

import re
from random import Random

NASTY = [
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b"\x1b[31m", "\u202e".encode(), "\u00b2".encode(),
    "\ud7ff".encode(), b"-1", b"0", b"-0.0", b"1e400", b"-1e400", b"nan", b".nan", b".inf", b"NaN", b"Infinity", b"1e-400",
    b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"9" * 40, b"9" *
    5000, b"0x" + b"f" * 40, b"1_000", b"1:2:3", b"true", b"null", b"~", b"2001-99-99", b"2001-01-01", b"[]", b"{}", b"[[]]",
    b"{a: 1}", b"[" * 150, b"{a: " * 150, b'"', b"'", b"`", b"%", b"%(x)s", b"%d", b"{{x}}", b"&a *a", b"*a", b"<<: 5",
    b"!!python/object/apply:os.system [id]", b"!!binary a", b"? [a]", b"---", b"...", b",", b",,", b";", b"x" * 70000,
    b"../../../etc/passwd", b"/dev/zero", b"/" + b"x" * 5000, b"=1+1", b"@x", b"\\", b"\\u0000", b"\\ud800",
]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][\w.-]*")


def _replace(content: bytes, start: int, end: int, by: bytes) -> bytes:
    return content[:start] + by + content[end:]


def _token(content: bytes, random: Random, kind: re.Pattern[bytes]) -> tuple[int, int]:
    """A number or word of the content: the first after a random place."""
    at = random.randrange(len(content) + 1)
    found = kind.search(content, at) or kind.search(content)
    return (found.start(), found.end()) if found else (at, at)


def once(content: bytes, random: Random, others: list[bytes]) -> bytes:
    """One change.

    Args:
        content: of a file.
        random: decides.
        others: contents of other valid files, to be mixed in.
    """
    size = len(content)
    at = random.randrange(size + 1)
    kind = random.randrange(14)
    if kind == 0 and size:  # a bit
        place = random.randrange(size)
        return _replace(content, place, place + 1, bytes([content[place] ^ (1 << random.randrange(8))]))
    if kind == 1:  # random bytes
        return _replace(content, at, at + random.randrange(5), bytes(random.randrange(256) for _ in range(random.randrange(9))))
    if kind == 2:  # cut off
        return content[:at]
    if kind == 3:  # a hole
        return _replace(content, at, at + random.randrange(1 + size // 2), b"")
    if kind == 4:  # a part twice
        end = min(size, at + random.randrange(200))
        return _replace(content, end, end, content[at:end])
    if kind in (5, 6):
        return _replace(content, *_token(content, random, _NUMBER), random.choice(NASTY))
    if kind == 7:
        return _replace(content, *_token(content, random, _WORD), random.choice(NASTY))
    if kind == 8:  # another word of the same file
        first, second = _token(content, random, _WORD), _token(content, random, _WORD)
        return _replace(content, *first, content[slice(*second)])
    if kind == 9:
        return _replace(content, at, at, random.choice(NASTY))
    lines = content.split(b"\n")
    place = random.randrange(len(lines))
    if kind == 10:  # a line less, or twice, or elsewhere
        line = lines.pop(place)
        for _ in range(random.randrange(3)):
            lines.insert(random.randrange(len(lines) + 1), line)
        return b"\n".join(lines)
    if kind == 11:  # other indentation
        lines[place] = b" " * random.randrange(9) + lines[place].lstrip()
        return b"\n".join(lines)
    if kind == 12:  # a cell
        cells = lines[place].split(b",")
        cells[random.randrange(len(cells))] = random.choice(NASTY)
        lines[place] = b",".join(cells)
        return b"\n".join(lines)
    other = random.choice(others)
    return content[:at] + other[random.randrange(len(other) + 1) :]


def mutated(content: bytes, random: Random, others: list[bytes]) -> bytes:
    """One to four changes, at most 1 MiB."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = once(content, random, others)
    return content[: 1 << 20]
