"""A run of the trials against the last recorded one: what has changed since?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.artifact.mtap.evidence import Evidence, unknown_again
from analysis.paths import DATA
from analysis.tables import read_csv, write_csv

RECORDS = DATA / "trials"
WORKS = ("runs", "runs with cures")


def recorded(table: str, folder: Path = RECORDS) -> pd.DataFrame:
    """A recorded table; empty text stays text.

    Args:
        table: outcomes, steps, pins or bisects.
    """
    return read_csv(folder / f"{table}.csv", keep_default_na=False, na_values={c: [""] for c in ("value", "first_prediction_s", "cures")})


def add(out: Path, folder: Path = RECORDS) -> None:
    """Add a run to the record: a row of the same tool and date is replaced, older dates are kept."""
    for table in ("outcomes", "steps", "pins"):
        new = read_csv(out / f"{table}.csv", keep_default_na=False)
        done = set(zip(new["tool"], new["date"], strict=True))
        if (folder / f"{table}.csv").exists():
            old = read_csv(folder / f"{table}.csv", keep_default_na=False)
            new = pd.concat([old[[(t, d) not in done for t, d in zip(old["tool"], old["date"], strict=True)]], new], ignore_index=True)
        write_csv(new, folder / f"{table}.csv")


def last(outcomes: pd.DataFrame) -> pd.DataFrame:
    """The newest record of each tool."""
    return outcomes.sort_values(["tool", "date"]).drop_duplicates("tool", keep="last").reset_index(drop=True)


def _environment(pins: pd.DataFrame, tool: str) -> pd.DataFrame:
    mine = pins[pins["tool"] == tool]
    return mine[mine["date"] == mine["date"].max()] if "date" in mine else mine


def changes(before: pd.DataFrame, now: pd.DataFrame, pins_before: pd.DataFrame, pins_now: pd.DataFrame) -> pd.DataFrame:
    """What has changed between two records of the same tools.

    Args:
        before, now: outcomes; of each tool the newest row counts.

    Returns:
        One row a tool in both: versions, outcomes, packages that changed version, relative change of the prediction, ratio of the
        minutes, and `verdict`: worse, better, other answer, other versions or same.
    """
    rows = []
    old = last(before).set_index("tool")
    for new in last(now).to_dict("records"):
        if new["tool"] not in old.index:
            continue
        was = old.loc[new["tool"]]
        versions = [
            dict(zip(p["name"], p["version"], strict=True))
            for p in (_environment(pins_before, new["tool"]), _environment(pins_now, new["tool"]))
        ]
        moved = sum(versions[0].get(name) != versions[1].get(name) for name in {*versions[0], *versions[1]})
        answered = pd.notna(was["value"]) and pd.notna(new["value"])
        change = float(new["value"]) / float(was["value"]) - 1 if answered else None
        worked = (was["outcome"] in WORKS, new["outcome"] in WORKS)
        if worked[0] != worked[1]:
            verdict = "better" if worked[1] else "worse"
        elif change is not None and abs(change) > 1e-9:
            verdict = "other answer"
        else:
            verdict = "other versions" if moved else "same"
        rows.append(
            {
                "tool": new["tool"],
                "date_before": was["date"],
                "date_now": new["date"],
                "version_before": was["version"],
                "version_now": new["version"],
                "outcome_before": was["outcome"],
                "outcome_now": new["outcome"],
                "packages_changed": moved,
                "value_change": change,
                "minutes_ratio": float(new["cpu_minutes"]) / float(was["cpu_minutes"]),
                "verdict": verdict,
            }
        )
    return pd.DataFrame(rows)


def with_trial(evidence: Evidence, outcomes: pd.DataFrame) -> Evidence:
    """The evidence with the last recorded trial in every item of deployment that its file leaves open.

    A tool that runs as installed is stable, one that runs with cures needs pins, one that fails is broken; one that was blocked by an
    address outside the package index stays open. A failure that a cure resolved is listed as such.
    """
    mine = last(outcomes)
    mine = mine[mine["tool"] == evidence.tool]
    if mine.empty or mine.iloc[0]["outcome"] == "blocked":
        return evidence
    row, source = mine.iloc[0], "data/trials/outcomes.csv"
    works = row["outcome"] in WORKS
    said: dict[str, dict[str, object]] = {
        "D1": {"works": works},
        "D3": {"temporal_stability": "stable" if row["outcome"] == "runs" else "needs_pins" if works else "broken"},
        "D4": {
            "minutes_to_first_prediction": float(row["wall_minutes"]) if works else "unknown",
            "source_patches": 0,
            "manual_steps": int(row["cures"]) if works else "unknown",
            "complete_failure": not works,
        },
    }
    document = evidence.model_dump(exclude_none=True)
    for dimension, items in said.items():
        for name, value in items.items():
            item = getattr(getattr(evidence, dimension), name)
            if item is None or (name == "works" and item.value is None):
                document[dimension][name] = {"value": value, "kind": "measured", "source": source, "note": f"version {row['version']}"}
    seen = [c for c in str(row["classes"]).split() if c.startswith("F")]
    failures = [{"failure": c, "what": "in the recorded trial", "resolved": works, "source": source} for c in seen if c != "F3"]
    document["failures"] = [f.model_dump() for f in evidence.failures] + failures
    return Evidence.model_validate(unknown_again(document))
