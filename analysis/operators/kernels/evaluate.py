"""Scores on what was held out, beside the baselines: rows for `data/frozen/kernels_today`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from analysis.operators.kernels import fit, gpus, laws, splits, store, trees, work
from analysis.operators.kernels.gpus import ARCHITECTURES
from analysis.operators.kernels.splits import Cell
from analysis.operators.kernels.work import Floats, Work
from analysis.paths import DATA
from analysis.tables import read_csv, write_csv

TEST_ROWS = 1500  # of a cell at most, drawn
BASELINE_ROWS = 4000  # that the baselines are fitted on


def least_work(cell: Cell, rows: np.ndarray) -> Work:
    """FLOP and bytes of some rows of a cell, for the roofline."""
    z = {k: v[rows] for k, v in cell.sizes.items()}
    op = cell.operator
    if op == "gemm":
        return work.gemm(z["m"], z["n"], z["k"], cell.dtype)
    if op == "moe":
        sizes = (z["num_tokens"], z["num_experts"], z["topk"], z["hidden_size"], z["inter_size"])
        return work.moe(*sizes, cell.dtype, z["moe_tp_size"], z["moe_ep_size"]).work
    kv = np.where(np.char.endswith(cell.variant[rows], "fp8"), 1.0, 2.0)
    b, h = z["batch_size"], z["num_heads"]
    if op == "latent_prefill":
        return work.latent_prefill(b, h, z["isl"], z["isl"], 2.0)
    if op == "latent_decode":
        one = work.latent_decode(b, h, z["step"] + 1, 1.0)
        return Work(one.flop, one.bytes + (kv - 1) * b * (z["step"] + 1) * (work.LATENT + work.ROPE))
    g, d, w = z["num_key_value_heads"], z["head_dim"], z["window_size"]
    if op == "attention_prefill":
        one = work.attention_prefill(b, h, g, d, d, z["isl"], z["isl"], 1.0, w)
        return Work(one.flop, one.bytes + (kv - 1) * b * z["isl"] * g * 2 * d)
    one = work.attention_decode(b, h, g, d, z["step"] + 1, 1.0, w)
    return Work(one.flop, one.bytes + (kv - 1) * 2 * b * g * d * np.where(w > 0, np.minimum(z["step"] + 1, w), z["step"] + 1))


def roofline_times(cell: Cell, rows: np.ndarray) -> tuple[Floats, Floats]:
    """Times of arithmetic and of memory at the data sheet's rates (s)."""
    gpu, done = gpus.load(cell.system), least_work(cell, rows)
    return done.flop / gpu.peak_flop_per_s[cell.dtype or "bf16"], done.bytes / gpu.bandwidth_bytes_per_s


def fit_roofline(parts: list[tuple[Floats, Floats, Floats]]) -> Floats:
    """Launch floor and one share for arithmetic and one for memory, by least absolute log error: the baseline's three parameters."""
    compute, memory, seconds = (np.concatenate([p[i] for p in parts]) for i in range(3))

    def loss(p: Floats) -> float:
        floor, a, b = np.exp(p)
        return float(np.mean(np.abs(np.log((floor + np.maximum(compute / a, memory / b)) / seconds))))

    return np.exp(minimize(loss, np.log([5e-6, 0.6, 0.7]), method="Nelder-Mead", options={"maxiter": 150}).x)


def roofline(cell: Cell, rows: np.ndarray, shares: Floats) -> Floats:
    """The baseline's answer (s)."""
    compute, memory = roofline_times(cell, rows)
    return shares[0] + np.maximum(compute / shares[1], memory / shares[2])


def nearest(cell: Cell, known: np.ndarray, rows: np.ndarray) -> Floats:
    """Time of the nearest fitted shape of the same cell and variant, scaled by the roofline's ratio (s)."""
    from scipy.spatial import cKDTree

    out = np.full(len(rows), np.nan)
    logs = np.log(np.maximum(np.stack(list(cell.sizes.values()), axis=1), 0.5))
    for one in np.unique(cell.variant):
        have, want = known[cell.variant[known] == one], cell.variant[rows] == one
        if len(have) and want.any():
            place = cKDTree(logs[have]).query(logs[rows[want]])[1]
            out[want] = cell.seconds[have[place]]
    return out


def score(wheel: Path, operator: str, folder: Path | None = None, seed: int = 0) -> pd.DataFrame:
    """Every drawn test row of an operator: the measured time, ours in both settings with its spread, and the baselines'.

    Returns:
        columns system, architecture, framework, dtype, variant, seconds, ours_s, log_sd, hidden_s, hidden_log_sd, roofline_s,
        hidden_roofline_s, nearest_s.
    """
    rng = np.random.default_rng(seed)
    cells = list(splits.cells(wheel, operator))
    levels, measured, pooled = (
        store.read_sustained(folder),
        store.read(f"measured_{operator}", folder),
        store.read(f"pooled_{operator}", folder),
    )
    carried = laws.read(folder)
    place = {cell.key: splits.bucket(cell.sizes) for cell in cells}
    each = max(200, 4 * BASELINE_ROWS // len(cells))
    base_rows = {cell.key: rng.permutation(np.flatnonzero(place[cell.key] > 1))[:each] for cell in cells}
    parts = []
    for dtype in sorted({cell.dtype for cell in cells}):
        of_type = [cell for cell in cells if cell.dtype == dtype]
        known = {c.key: (*roofline_times(c, base_rows[c.key]), c.seconds[base_rows[c.key]]) for c in of_type}
        shares = {"none": fit_roofline(list(known.values()))}
        for left_out in ARCHITECTURES:
            rest = [known[c.key] for c in of_type if gpus.load(c.system).architecture != left_out]
            if rest:
                shares[left_out] = fit_roofline(rest)
        for cell in of_type:
            rows = rng.permutation(np.flatnonzero(place[cell.key] == 0))[:TEST_ROWS]
            architecture = gpus.load(cell.system).architecture
            got = fit.features(cell, rows, levels["none"])
            model = measured[cell.key]
            frame = pd.DataFrame(
                {
                    "system": cell.system,
                    "architecture": architecture,
                    "framework": cell.framework,
                    "dtype": dtype or "",
                    "seconds": cell.seconds[rows],
                }
            )
            frame["variant"] = cell.variant[rows]
            frame["ours_s"] = got.base_s * np.exp(trees.predict(model.forest, got.values))
            frame["log_sd"] = model.log_sd[np.digitize(got.base_s, model.edges)]
            frame["roofline_s"] = roofline(cell, rows, shares["none"])
            frame["nearest_s"] = nearest(cell, np.flatnonzero(place[cell.key] > 1), rows)
            others = any(gpus.load(c.system).architecture != architecture for c in of_type)
            hidden = pooled.get(f"{architecture}/{dtype}") or pooled.get(architecture)
            if hidden and others:
                got, model = fit.features(cell, rows, levels[architecture]), hidden
                if operator in carried:
                    got = fit.lawful(cell, rows, got, carried[operator][architecture], levels[architecture])
                frame["hidden_s"] = got.base_s * np.exp(trees.predict(model.forest, got.values))
                frame["hidden_log_sd"] = model.log_sd[np.digitize(got.base_s, model.edges)]
                frame["hidden_roofline_s"] = roofline(cell, rows, shares[architecture])
            parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def _line(part: pd.DataFrame, answer: str, sd: str, baselines: dict[str, str]) -> dict[str, float]:
    error = np.abs(np.expm1(np.log(part[answer] / part["seconds"])))
    log = np.log(part[answer] / part["seconds"])
    line = {
        "rows": float(len(part)),
        "median_error": float(np.median(error)),
        "mean_error": float(error.mean()),
        "p90_error": float(np.quantile(error, 0.9)),
        "bias": float(np.median(log)),
        "coverage_90": float((np.abs(log) <= 1.6449 * part[sd]).mean()),
        "interval_factor": float(np.exp(1.6449 * part[sd].median())),
    }
    return line | {name: float(np.median(np.abs(np.expm1(np.log(part[c] / part["seconds"]))))) for name, c in baselines.items()}


def accuracy(rows: pd.DataFrame, operator: str) -> pd.DataFrame:
    """Medians by GPU and number type, and over all, of both settings; errors and shares as fractions."""
    out = []
    for setting, answer, sd, baselines in (
        ("measured gpu", "ours_s", "log_sd", {"roofline_median_error": "roofline_s", "nearest_median_error": "nearest_s"}),
        ("unmeasured architecture", "hidden_s", "hidden_log_sd", {"roofline_median_error": "hidden_roofline_s"}),
    ):
        if answer not in rows:
            continue
        have = rows[rows[answer].notna()]
        for keys in (["system", "dtype"], ["system"], ["architecture"], ["dtype"], []):
            for key, part in have.groupby(keys) if keys else [((), have)]:
                names = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
                if "dtype" in names and not names["dtype"]:
                    continue
                where = names.get("system", names.get("architecture", "all"))
                line = {"operator": operator, "setting": setting, "gpus": where, "dtype": names.get("dtype") or "all"}
                out.append(line | _line(part, answer, sd, baselines))
    return pd.DataFrame(out)


def score_siblings(wheel: Path, operator: str, rows_of_a_cell: int = 300, seed: int = 0) -> pd.DataFrame:
    """Held-out rows of the GPUs that have a timed sibling, answered by the sibling's forests: one line a GPU, type and over all.

    Returns:
        columns operator, gpus, dtype, rows, median_error, p90_error, bias, coverage_90, interval_factor.
    """
    from analysis.operators.kernels.library import SIBLING_SD

    rng, models, levels, parts = np.random.default_rng(seed), store.read(f"measured_{operator}"), store.read_sustained()["none"], []
    for cell in splits.cells(wheel, operator):
        for distance, sibling in gpus.siblings(gpus.load(cell.system)):
            model = models.get(f"{sibling}/{cell.framework}/{cell.dtype}")
            if model:
                rows = rng.permutation(np.flatnonzero(splits.bucket(cell.sizes) == 0))[:rows_of_a_cell]
                got = fit.features(cell, rows, levels)
                part = pd.DataFrame({"system": cell.system, "dtype": cell.dtype or "all", "seconds": cell.seconds[rows]})
                part["ours_s"] = got.base_s * np.exp(trees.predict(model.forest, got.values))
                part["log_sd"] = np.hypot(model.log_sd[np.digitize(got.base_s, model.edges)], SIBLING_SD[operator] * (1 + distance))
                parts.append(part)
                break
    every = pd.concat(parts, ignore_index=True)
    lines = [{"operator": operator, "gpus": "all", "dtype": "all"} | _line(every, "ours_s", "log_sd", {})]
    for (system, dtype), part in every.groupby(["system", "dtype"]):
        lines.append({"operator": operator, "gpus": str(system), "dtype": str(dtype)} | _line(part, "ours_s", "log_sd", {}))
    return pd.DataFrame(lines).drop(columns="mean_error")


def doublings(wheel: Path, pairs_of_a_cell: int = 3_000, seed: int = 0) -> pd.DataFrame:
    """Doublings of one dimension of a GEMM where both shapes were measured: how often the longer one is faster, measured and answered.

    Returns:
        columns system, framework, dtype, pairs, measured_faster, answered_faster (shares by more than 5 %), answered_alone (by more than
        5 % where the measurement is not faster at all), answered_alone_worst (largest gain among those).
    """
    rng, models, levels, out = np.random.default_rng(seed), store.read("measured_gemm"), store.read_sustained()["none"], []
    for cell in splits.cells(wheel, "gemm"):
        frame = pd.DataFrame(cell.sizes).assign(row=np.arange(len(cell.seconds)))
        found = [frame.assign(**{axis: 2 * frame[axis]}).merge(frame, on=["m", "n", "k"])[["row_x", "row_y"]] for axis in "mnk"]
        pairs = pd.concat(found).to_numpy()
        pairs = pairs[rng.permutation(len(pairs))[:pairs_of_a_cell]]
        answered = []
        for side in (0, 1):
            got = fit.features(cell, pairs[:, side], levels)
            answered.append(got.base_s * np.exp(trees.predict(models[cell.key].forest, got.values)))
        measured = 1 - cell.seconds[pairs[:, 1]] / cell.seconds[pairs[:, 0]]
        gain = 1 - answered[1] / answered[0]
        alone = (gain > 0.05) & (measured <= 0)
        line = {"system": cell.system, "framework": cell.framework, "dtype": cell.dtype, "pairs": len(pairs)}
        line |= {"measured_faster": float((measured > 0.05).mean()), "answered_faster": float((gain > 0.05).mean())}
        out.append(line | {"answered_alone": float(alone.mean()), "answered_alone_worst": float(gain[alone].max(initial=0.0))})
    return pd.DataFrame(out)


def cluster_interval(rows: pd.DataFrame, answer: str, baseline: str, draws: int = 2000, seed: int = 0) -> tuple[float, float, float]:
    """Median over architectures of the baseline's median error less ours, and its 95 % interval over resampled architectures."""
    have = rows[rows[answer].notna()]
    gain = []
    for _, part in have.groupby("architecture"):
        ours, theirs = (np.median(np.abs(np.expm1(np.log(part[c] / part["seconds"])))) for c in (answer, baseline))
        gain.append(theirs - ours)
    values = np.array(gain)
    drawn = values[np.random.default_rng(seed).integers(0, len(values), (draws, len(values)))].mean(axis=1)
    return float(values.mean()), float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))


def freeze(wheel: Path, operators: tuple[str, ...], place: Path) -> None:
    """Score some operators and renew their rows of `accuracy.csv`, `gains.csv` and `siblings.csv`; with GEMM, `doublings.csv`."""
    for operator in operators:
        found = score(wheel, operator)
        gains = []
        for name, a, b in (
            ("roofline, measured gpu", "ours_s", "roofline_s"),
            ("nearest shape, measured gpu", "ours_s", "nearest_s"),
            ("roofline, unmeasured architecture", "hidden_s", "hidden_roofline_s"),
        ):
            gain, low, high = cluster_interval(found, a, b)
            count = int(found[found[a].notna()]["architecture"].nunique())
            gains.append({"operator": operator, "baseline": name, "gain": gain, "low": low, "high": high, "architectures": count})
        siblings = score_siblings(wheel, operator)
        if operator == "gemm":
            write_csv(doublings(wheel), place / "doublings.csv")
        for name, new in (("accuracy", accuracy(found, operator)), ("gains", pd.DataFrame(gains)), ("siblings", siblings)):
            path = place / f"{name}.csv"
            old = read_csv(path) if path.is_file() else new[:0]
            write_csv(pd.concat([old[old["operator"] != operator], new], ignore_index=True).sort_values("operator", kind="stable"), path)


def blind_fp8() -> pd.DataFrame:
    """FP8 products that PipeWeave timed on cards that the tables lack, answered from their data sheets; nothing is fitted on them."""
    from analysis import datasets
    from analysis.operators.kernels.library import KernelLibrary

    every = datasets.load("pipeweave/gemm_fp8_train")
    out = []
    for name, part in every.groupby("hardware"):
        answer = KernelLibrary.load().on(str(name)).gemm(part["M"], part["N"], part["K"], "fp8")
        log = np.log(answer.s / (1e-6 * part["avg_duration"].to_numpy(np.float64)))
        error = np.abs(np.expm1(log))
        small = (part["M"] * part["N"] * part["K"]).to_numpy(np.float64) < 2e9
        line = {"device": str(name), "rows": len(part), "median_error": float(np.median(error)), "bias": float(np.median(log))}
        line |= {"small_median_error": float(np.median(error[small])), "coverage_90": float((np.abs(log) <= 1.6449 * answer.log_sd).mean())}
        out.append(line)
    return pd.DataFrame(out)


if __name__ == "__main__":
    import sys

    from analysis.operators.kernels import wheel as wheel_reader

    freeze(wheel_reader.find(), tuple(sys.argv[1:]) or tuple(splits.SIZES), DATA / "frozen" / "kernels_today")
