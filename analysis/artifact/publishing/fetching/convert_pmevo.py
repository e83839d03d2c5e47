"""PMEvo's experiment lists as one table: a multiset of instructions, its measured cycles, and what other tools say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import InputError

BLOCKS = "exps_eval_small_annotated.json"
SINGLETONS = "exps_singletons.json"
TOOLS = ("IACA", "llvm-mca", "Ithemal")
ORDER = ("SKL", "ZEN", "A72")


def needed(path: str) -> bool:
    """Whether a file of the repository goes into the table."""
    return path.startswith("vm_setup/data/") and Path(path).name in (BLOCKS, SINGLETONS)


def experiments(path: Path) -> list[dict[str, Any]]:
    """The experiments of one list: instructions (`iseq`), measured cycles, and other tools' cycles by name."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["exps"]
        return [
            {
                "iseq": [str(name) for name in entry["iseq"]],
                "cycles": float(entry["result"]["cycles"]),
                "others": {tool["id"]: float(tool["cycles"]) for tool in entry.get("other_results", []) if tool.get("cycles") is not None},
            }
            for entry in found
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"is not JSON of the expected form ({error})"
        raise InputError(f"{what}; expected exps: a list of iseq and result.cycles", path=path) from None


def blocks(arch: str, measured: list[dict[str, Any]], alone: Mapping[str, float], path: Path) -> pd.DataFrame:
    """One architecture's blocks."""
    rows = []
    for entry in measured:
        unknown = [name for name in entry["iseq"] if name not in alone]
        if unknown:
            raise InputError("was not measured by itself", path=path, key=unknown[0])
        single = [alone[name] for name in entry["iseq"]]
        row: dict[str, Any] = {"arch": arch, "iseq": " ; ".join(entry["iseq"]), "n_insns": len(entry["iseq"]), "cycles": entry["cycles"]}
        row |= {f"pred_{tool}": entry["others"].get(tool) for tool in TOOLS}
        rows.append(row | {"sum_singletons": sum(single), "max_singletons": max(single)})
    return pd.DataFrame(rows)


def tables(originals: Mapping[str, Path]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The table of all architectures."""
    found: dict[str, dict[str, Path]] = {}
    for path, file in originals.items():
        found.setdefault(Path(path).parent.name, {})[Path(path).name] = file
    frames = []
    for arch in sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)):
        files = found[arch]
        missing = {BLOCKS, SINGLETONS} - set(files)
        if missing:
            raise InputError("is not in the list of files", key=f"vm_setup/data/{arch}/{missing.pop()}")
        alone = {entry["iseq"][0]: entry["cycles"] for entry in experiments(files[SINGLETONS]) if len(entry["iseq"]) == 1}
        frames.append(blocks(arch, experiments(files[BLOCKS]), alone, files[BLOCKS]))
    if frames:
        yield "insn_multiset_cycles.csv.gz", pd.concat(frames, ignore_index=True)
