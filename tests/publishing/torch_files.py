"""Writes files as torch.save lays them out (a zip since version 1.6), byte by byte, without PyTorch."""

from __future__ import annotations

import pickle
import struct
import zipfile
from io import BytesIO


def zipped(data_pkl: bytes, storages: dict[str, bytes] | None = None, folder: str = "archive") -> bytes:
    """The zip around a pickle and the raw values of tensors."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{folder}/data.pkl", data_pkl)
        for key, values in (storages or {}).items():
            archive.writestr(f"{folder}/data/{key}", values)
        archive.writestr(f"{folder}/version", "3\n")
    return out.getvalue()


def saved(value: object) -> bytes:
    """torch.save of plain numbers, texts, lists and dicts: protocol 2."""
    return zipped(pickle.dumps(value, protocol=2))


def saved_tensor(
    values: list[float], kind: str = "FloatStorage", code: str = "f", claimed: int | None = None, size: int | None = None
) -> bytes:
    """torch.save of a tensor of one dimension, as version 1.6 and later write it."""
    count = len(values) if claimed is None else claimed
    shape = len(values) if size is None else size
    program = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01ctorch\n" + kind.encode() + b"\nq\x02"
        b"X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04" + b"M" + struct.pack("<H", count) + b"tq\x05QK\x00"
        b"M" + struct.pack("<H", shape) + b"\x85q\x06K\x01\x85q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b."
    )
    return zipped(program, {"0": struct.pack(f"<{len(values)}{code}", *values)})
