"""Damaged copies of valid files: bits, bytes, lines, cells, brackets, numbers, parts of its structure, and what has hurt readers before."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from random import Random
from typing import Any

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


LARGEST = 2 << 20
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1e-9, 1e308, 2**31, 2**53 + 1, 2**63 - 1, 10**9, "", "x", "nan", [], {}, [[]], [1], {"a": 1}, "x" * 300,
    "\ud7ff", [None], [0, 0], -0.5, "1", 10**6,
]  # fmt: skip
_WORDS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


def _json(content: bytes, random: Random) -> bytes:
    """JSON with one node changed, taken away, given twice or put elsewhere."""
    tree = json.loads(content)
    places: list[tuple[Any, Any]] = []
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        places += [(node, key) for key in keys]
        ahead += [node[key] for key in keys if isinstance(node[key], dict | list)]
    if not places:
        return json.dumps(random.choice(VALUES)).encode()
    node, key = random.choice(places)
    other, other_key = random.choice(places)
    kind = random.randrange(5)
    if kind == 0:
        node[key] = random.choice(VALUES)
    elif kind == 1:
        del node[key]
    elif kind == 2:
        node[key] = json.loads(json.dumps(other[other_key]))
    elif kind == 3 and isinstance(node[key], int | float):
        node[key] = random.choice((-node[key], node[key] * 1000, node[key] + 0.5, str(node[key]), [node[key]]))
    elif isinstance(node, dict):
        node[f"{key}x"] = node.pop(key)
    else:
        node *= random.choice((0, 2, 50))
    return json.dumps(tree).encode()


def _block(lines: list[bytes], random: Random) -> tuple[int, int]:
    """A line and the deeper lines that follow it: a node of YAML, an operation with its regions."""
    first = random.randrange(len(lines))
    deep = len(lines[first]) - len(lines[first].lstrip())
    last = first + 1
    while last < len(lines) and len(lines[last]) - len(lines[last].lstrip()) > deep:
        last += 1
    return first, last


def _lines(content: bytes, random: Random) -> bytes:
    """Text with one of its blocks taken away, given twice, or put in the place of another; or with the value of a key changed."""
    lines = content.split(b"\n")
    first, last = _block(lines, random)
    block = lines[first:last]
    kind = random.randrange(5)
    if kind == 0:
        del lines[first:last]
    elif kind == 1:
        lines[last:last] = block
    elif kind == 2:
        to, end = _block(lines, random)
        shift = len(lines[to]) - len(lines[to].lstrip()) - (len(block[0]) - len(block[0].lstrip()))
        lines[to:end] = [b" " * shift + line if shift > 0 else line[-shift:] for line in block]
    else:
        key, colon, _ = lines[first].partition(b": ")
        if not colon:
            key, colon = lines[first].rstrip(b": "), b": "
        lines[first : last if kind == 3 else first + 1] = [key + colon + json.dumps(random.choice(VALUES)).encode()]
    return b"\n".join(lines)


def _zip(content: bytes, random: Random) -> bytes:
    """An archive whose check sums hold, with one of its files damaged, taken away, renamed or given twice."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(each.filename, archive.read(each)) for each in archive.infolist()]
    place = random.randrange(len(members))
    name, inside = members[place]
    kind = random.randrange(8)
    if kind == 0:
        del members[place]
    elif kind == 1:
        members[place] = (random.choice(members)[0], inside)
    elif kind == 2:
        members.append((name + "x", inside))
    else:
        change = _words if kind < 5 else once
        members[place] = (name, change(inside, random, [inside]))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, inside in members:
            archive.writestr(zipfile.ZipInfo(name), inside)
    return stream.getvalue()


def _words(content: bytes, random: Random, others: list[bytes]) -> bytes:
    """Binary with a whole number of 1, 2, 4 or 8 bytes, most often one of its head, set to a border of its range or moved by a little."""
    size, code = random.choice(((1, "<B"), (2, "<H"), (4, "<I"), (8, "<Q")))
    if len(content) < size:
        return content
    place = random.randrange(min(len(content) - size + 1, random.choice((64, 256, len(content)))))
    found = struct.unpack_from(code, content, place)[0]
    value = random.choice((*_WORDS, found + 1, found - 1, found * 2, found ^ (1 << random.randrange(8 * size)))) % (1 << 8 * size)
    return _replace(content, place, place + size, struct.pack(code, value))


def _packed(content: bytes, random: Random) -> bytes:
    """A gzip file whose check sum holds, with what it holds damaged."""
    inside = gzip.decompress(content)
    return gzip.compress(once(inside, random, [inside]), 1, mtime=0)


_NO_FORM_LEFT = (
    ValueError, TypeError, LookupError, RecursionError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error,
    struct.error,
)  # fmt: skip
"""What the parsers of a form raise at a file that earlier changes have damaged."""


def structured(content: bytes, random: Random) -> bytes:
    """One change that keeps the form of the file, as far as its form can be told; `content` itself where it cannot be kept."""
    try:
        if content[:2] == b"PK":
            return _zip(content, random)
        if content[:2] == b"\x1f\x8b":
            return _packed(content, random)
        if content[:1] in (b"{", b"["):
            return _json(content, random)
        if b"\0" in content[:4096]:
            return _words(content, random, [])
    except _NO_FORM_LEFT:
        return content
    return _lines(content, random)


def mutated(content: bytes, random: Random, others: list[bytes]) -> bytes:
    """One to four changes, two in five of them to the structure; at most 2 MiB."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = structured(content, random) if random.random() < 0.4 else once(content, random, others)
    return content[:LARGEST]
