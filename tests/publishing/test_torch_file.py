"""PyTorch files are read without running what is in them."""

from __future__ import annotations

import os
import pickle
import struct
from collections import OrderedDict
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from publishing import torch_files

from analysis.artifact.publishing.fetching.torch_file import Refused, read_pickle, read_torch
from analysis.errors import InputError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner, inner)
    ),
    max_leaves=30,
)


@given(plain, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_read_as_pickle_would(value: object, protocol: int) -> None:
    assert read_pickle(BytesIO(pickle.dumps(value, protocol=protocol))) == value


def put(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    return path


def test_tensors_are_read_with_their_type(tmp_path: Path) -> None:
    """Layout: what torch.save writes for torch.tensor([...]), format version 3."""
    values = [1.5, -2.0, 3.25]
    assert read_torch(put(tmp_path, torch_files.saved_tensor(values))).tolist() == values
    doubles = read_torch(put(tmp_path, torch_files.saved_tensor(values, "DoubleStorage", "d")))
    assert doubles.dtype == np.float64 and doubles.tolist() == values
    assert read_torch(put(tmp_path, torch_files.saved_tensor([7, 8], "LongStorage", "q"))).tolist() == [7, 8]


def test_the_format_before_1_6_is_read_when_it_holds_no_tensor(tmp_path: Path) -> None:
    """Old layout: the pickles of a magic number, of the protocol version, of facts about the machine, and then the object."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, [1.0, 2.5]]
    assert read_torch(put(tmp_path, b"".join(pickle.dumps(part, protocol=2) for part in parts))) == [1.0, 2.5]


class Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("attacked",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: torch_files.saved(Attack()), "names posix.mkdir|names nt.mkdir"),
        (lambda: torch_files.zipped(pickle.dumps(Attack(), protocol=4)), "STACK_GLOBAL"),
        (lambda: torch_files.saved([OrderedDict(a=print)]), "names"),
        (lambda: torch_files.zipped(b"\x80\x02(i__main__\nx\n."), "instruction INST"),
        (lambda: torch_files.zipped(b"\x80\x02ccollections\nOrderedDict\n}b."), "instruction BUILD"),
        (lambda: torch_files.zipped(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n."), "left over"),
        (lambda: torch_files.zipped(b"\x80\x02]K\x01"), "broken|early"),
        (lambda: torch_files.zipped(b"\x80\x02e."), "bracket"),
        (lambda: torch_files.saved_tensor([1.0, 2.0], claimed=3), "expected 3 elements"),
        (lambda: torch_files.saved_tensor([1.0, 2.0], size=3), "element 2 of 2"),
        (lambda: torch_files.saved_tensor([1.0], "QInt8Storage"), "names torch.QInt8Storage"),
        (lambda: b"PK\x03\x04 torn", "broken|early|instruction"),
        (lambda: b"", "early|broken"),
        (lambda: struct.pack("<Q", 12) + b"no pickle at all", "broken|instruction|early"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_run(content, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        read_torch(put(tmp_path, content()))
    assert not (tmp_path / "attacked").exists()


class OnlyOrderedDict(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) != ("collections", "OrderedDict"):
            raise pickle.UnpicklingError(name)
        return OrderedDict


pieces = st.lists(
    st.sampled_from(
        b"] } ) ( N \x88 K\x01 K\x02 M\x00\x01 a e s u t \x85 \x86 q\x00 h\x00 U\x01x X\x01\0\0\0a ccollections|OrderedDict| R b 0".split()
    )
).map(lambda found: b"".join(found).replace(b"|", b"\n") + b".")


@settings(max_examples=400)
@given(st.binary(max_size=200) | pieces)
def test_any_bytes_are_refused_or_are_the_value_that_pickle_reads(content: bytes) -> None:
    """Law: what is not refused is what Python's own reader gives when it may name nothing but an ordered dict."""
    data = b"\x80\x02" + content
    try:
        value = read_pickle(BytesIO(data))
    except Refused:
        return
    inert = repr(value).replace("_Known(name='collections OrderedDict')", repr(OrderedDict))  # a name that is not called
    assert repr(OnlyOrderedDict(BytesIO(data)).load()) == inert
