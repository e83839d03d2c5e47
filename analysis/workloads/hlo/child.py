"""From the bytes of one StableHLO program to the record of its operator graph. (Child process.)"""

from __future__ import annotations

import re
from typing import Any

from analysis.workloads.hlo import bindings
from analysis.workloads.hlo.settle import NeedsPasses
from analysis.workloads.hlo.structure import NoProgram, TooLarge
from analysis.workloads.hlo.walk import Walker

_SPLIT = re.compile(rb"^[ \t]*// -----.*$", re.MULTILINE)


def read(content: bytes, entry: str | None, part: int = 0) -> dict[str, Any]:
    """The record of one program (see `walk.Walker.record`), or ``{"error": message, "line": number}``."""
    content = content.removeprefix(b"\xef\xbb\xbf")  # a byte-order mark, which editors of Windows write
    parts = [content] if content.startswith(b"ML\xefR") or b"// -----" not in content else _SPLIT.split(content)
    if part > len(parts) or part < 0:
        return {"error": f"has no part {part}: it holds {len(parts)}", "line": 0}
    if part:
        above = sum(each.count(b"\n") for each in parts[: part - 1])
        found = _read(parts[part - 1], entry)
        return {**found, "line": found["line"] + above} if found.get("line") else found
    found = _read(content, entry)
    if "error" in found and len(parts) > 1:
        found["error"] = f"holds {len(parts)} programs split by // -----: choose with --part (as one program it {found['error']})"
    return found


def _read(content: bytes, entry: str | None) -> dict[str, Any]:
    made = bindings.context()
    try:
        module = bindings.parse(content, made)
        name = bindings.module_name(module)
        chosen = Walker(module).entry(entry)
        walker, notes = _walk(module, chosen, content, made)
        if walker.is_dynamic:
            module = bindings.parse(content, made)
            if bindings.refine(module, made):
                walker, notes = _walk(module, chosen, content, made)
    except bindings.ParseFailed as error:
        return {"error": f"is not a StableHLO program: {error}", "line": error.line}
    except (NoProgram, TooLarge) as error:
        return {"error": str(error), "line": 0}
    except RecursionError:
        return {"error": "nests its regions too deep", "line": 0}
    except RuntimeError as error:
        if "conversion error" not in str(error):
            raise
        return {"error": "holds a name that is not UTF-8 text", "line": 0}
    record = walker.record()
    record["notes"] += notes
    record["name"] = name
    record["entry"] = chosen
    return record


def _walk(module: Any, entry: str, content: bytes, made: Any) -> tuple[Any, list[str]]:
    bindings.publish(module, entry, made)
    notes = []
    if b"!quant.uniform<" in content:
        notes.append(bindings.QUANTISED_NOTE)
    if b"check.expect" in content:
        notes.append(
            "its results are compared with constants: counted as it is written, without XLA's import steps, which would work them out"
        )
    else:
        if bindings.tidy(module, made):
            walker = Walker(module, settles=True)
            try:
                with made:
                    walker.walk(entry)
                return walker, notes
            except NeedsPasses:
                pass
        if not bindings.simplify(module, made, content):
            module = bindings.parse(content, made)
            notes.append("the steps that XLA runs before its own import cannot be run on it: counted as it is written")
    walker = Walker(module)
    with made:
        walker.walk(entry)
    return walker, notes
