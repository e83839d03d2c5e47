"""A small committed sample of the held-out rows (Apache-2.0, attributed), and the same rows answered with the committed parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.kernels import physics, trees
from analysis.studies.kernels import fit, splits

COLUMNS = ("s1", "s2", "s3", "s4", "s5", "s6", "s7")  # the sizes of `splits.SIZES`, in its order


def draw(wheel: Path, operator: str, rows: int = 100, seed: int = 0) -> pd.DataFrame:
    """Some test rows of an operator, spread over its cells, with the measured time and the answer of that day."""
    rng = np.random.default_rng(seed)
    parts = []
    cells = list(splits.cells(wheel, operator))
    for cell in cells:
        test = rng.permutation(np.flatnonzero(splits.bucket(cell.sizes) == 0))[: max(1, rows // len(cells))]
        names = {"operator": operator, "system": cell.system, "framework": cell.framework, "dtype": cell.dtype}
        frame = pd.DataFrame(names, index=range(len(test)))
        frame["variant"] = cell.variant[test]
        for column, values in zip(COLUMNS, cell.sizes.values(), strict=False):
            frame[column] = values[test].astype(np.int64)
        frame["measured_ms"] = (1e3 * cell.seconds[test]).round(6)
        parts.append(frame)
    table = pd.concat(parts, ignore_index=True)
    return recompute(table).rename(columns={"latency_ms_now": "predicted_ms"}).round({"predicted_ms": 9})


def recompute(sample: pd.DataFrame) -> pd.DataFrame:
    """The sample with `latency_ms_now`: the committed forests' answers, in the setting of the measured GPU."""
    sample = sample.reset_index(drop=True).copy()
    sample["latency_ms_now"] = np.nan
    text = sample[["dtype", "variant"]].fillna("").astype(str)
    levels = physics.read_sustained()["none"]
    for operator, of_operator in sample.groupby("operator"):
        models = trees.read(f"measured_{operator}")
        groups = of_operator.assign(dtype=text["dtype"]).groupby(["system", "framework", "dtype"]).groups
        for key, at in groups.items():
            system, framework, dtype = (str(part) for part in list(key))  # type: ignore[call-overload]
            rows, names = np.asarray(at), splits.SIZES[str(operator)]
            sizes = {name: sample[column].to_numpy(np.float64)[rows] for name, column in zip(names, COLUMNS, strict=False)}
            variant = text["variant"].to_numpy(str)[rows]
            one = splits.Cell(str(operator), system, framework, "", dtype, sizes, variant, np.ones(len(rows)))
            got = fit.features(one, np.arange(len(rows)), levels)
            seconds = got.base_s * np.exp(trees.predict(models[one.key].forest, got.values))
            sample.loc[rows, "latency_ms_now"] = 1e3 * seconds
    return sample


if __name__ == "__main__":
    from analysis.paths import DATA
    from analysis.studies.kernels import wheel as wheel_reader
    from analysis.tables import write_csv

    found = wheel_reader.find()
    drawn = pd.concat([draw(found, operator) for operator in splits.SIZES], ignore_index=True)
    write_csv(drawn, DATA / "frozen" / "kernels_today" / "sample.csv")
