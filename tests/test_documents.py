"""Hostile documents: each is refused in one line, in little time and memory, whoever reads it."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from analysis.accelerators.timeloop.yaml_tree import File, is_native
from analysis.configs import Strict, read_yaml
from analysis.documents import parse_json, read_json
from analysis.errors import InputError

# 825 bytes that stand for 10^9 values (the "billion laughs" of XML, in YAML).
ANCHOR_BOMB = "architecture: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"k{number}: &{chr(98 + number)} [{', '.join(['*' + chr(97 + number)] * 10)}]\n" for number in range(9)
)
BRACKETS = "name: " + "[" * 1000 + "]" * 1000 + "\n"


class Named(Strict):
    name: str


def readers(path: Path) -> list:
    return [lambda: read_yaml(path, Named), lambda: File(path)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ANCHOR_BOMB, "aliases stand for more than 100,000 values"),
        (BRACKETS, "c.yaml:1: nests more than 100 deep"),
        ("name: a\n? [a]\n: 1\n", "c.yaml:2: a key is a name or a number"),
        ("name: a\n? {a: 1}\n: 1\n", "c.yaml:2: a key is a name or a number"),
        ("x: &a b\n*a : 1\n", "c.yaml:2: a key is a name or a number"),
        ("name: &a [*a]\n", "refers to what it stands in"),
        (f"name: {'9' * 10_000}\n", "c.yaml:1: a number of more than 400 characters"),
        (f"name: {'9' * 30}\n", "c.yaml:1: a whole number beyond 64 bits"),
        ("a: 1\nname: 2001-99-99\n", "c.yaml:2: is not a timestamp"),
        ("name: !!binary a\n", "c.yaml:1:"),
        ("name: !!python/name:os.system WITNESS\n", "c.yaml:1:"),
        ("--- a\n--- b\n", "c.yaml:2: holds more than one document"),
        ("<<: 5\nname: a\n", "c.yaml:1:"),
        ("name: \x01\n", "not valid YAML"),
    ],
    ids=["anchor bomb", "bracket file", "list as key", "mapping as key", "alias as key", "cycle", "10,000 digits", "30 digits", "bad date",
         "bad base64", "python object", "two documents", "merge of a number", "control character"],
)  # fmt: skip
def test_hostile_yaml_is_one_line_from_every_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.yaml"
    path.write_text(text)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in readers(path):
        with pytest.raises(InputError) as caught:
            read()
        assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1
    is_native(path)
    assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", ["!!int [1]", "!!python/object/apply:os.system ['touch WITNESS']", "!!float {a: 1}"])
def test_tags_on_lists_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.yaml"
    path.write_text(f"a: 1\nname: {value}\n")
    with pytest.raises(InputError, match=r"c\.yaml:2: "):
        read_yaml(path, Named)
    assert isinstance(File(path).root["name"], (list, dict))  # Timeloop's tree keeps the tag of a mapping and leaves others alone
    assert list(tmp_path.iterdir()) == [path]


def test_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(b"name: a\nother: \xff\n")
    for read in readers(path):
        with pytest.raises(InputError, match=r"c\.yaml:2: is not UTF-8"):
            read()


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "x" * 5000, "a\0b", "."])
def test_what_is_no_file_is_said(name: str) -> None:
    for read in readers(Path(name)):
        with pytest.raises(InputError) as caught:
            read()
        assert len(str(caught.value)) < 600 and "\0" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nests too deep"),
        (f'{{"a": {"9" * 5000}}}', "beyond 64 bits"),
        ('{"a": NaN}', "not a number of JSON"),
        ('{"a": 1, "a": 2}', "a: given twice"),
        ('{"a": 1,\n}', "j.json:2: is not JSON"),
        ('"\ud800"', "not UTF-8"),
        ('"\\ud800"', "half of a surrogate pair"),
    ],
)
def test_hostile_json_is_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_json(text.encode("utf-8", "surrogatepass"), "j.json")
    assert len(str(caught.value).splitlines()) == 1


def test_json_of_a_size_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "j.json"
    path.write_text('{"a": [1, 2.5, "x"]}')
    assert read_json(path) == {"a": [1, 2.5, "x"]}
    with pytest.raises(InputError, match="at most 10 are read"):
        read_json(path, 10)


def test_control_characters_are_escaped_and_long_cells_cut() -> None:
    error = InputError(f"expected a number (got {'x' * 70_000!r})", path="a\nb", key="k\x1b[31m\n\u202e")
    assert str(error).isprintable() and len(str(error)) < 400 and "\\x1b[31m\\n\\u202e" in str(error)


class _Inner(Strict):
    shares: tuple[float, ...] = ()
    used: bool = False
    label: str = ""


class _Outer(Strict):
    count: int = 1
    least: float | None = None
    inner: _Inner = _Inner()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("count: yes", ":1: count: expected a number, got yes or true"),
        ("least: no", ":1: least: expected a number, got no or false"),
        ("count: 2\ninner:\n  shares: [1, on]", ":3: inner.shares.1: expected a number, got yes or true"),
        ("inner: 3", ":1: inner: expected a mapping of keys to values (got 3)"),
    ],
)
def test_yes_and_no_are_no_numbers(tmp_path: Path, text: str, told: str) -> None:
    """YAML reads yes, no, on and off as booleans, which pydantic would take for 1 and 0."""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        read_yaml(tmp_path / "a.yaml", _Outer)
    assert str(error.value).endswith(told)


def test_yes_is_read_where_it_may_stand(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("inner: {used: yes, shares: [1, 2.5]}\nleast: null\n")
    assert read_yaml(tmp_path / "a.yaml", _Outer).inner.used is True
