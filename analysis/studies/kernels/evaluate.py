"""Scores on what was held out, beside the baselines: rows for `data/frozen/kernels_today`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from analysis.kernels import gpus, laws, physics, trees, work
from analysis.kernels.gpus import ARCHITECTURES
from analysis.kernels.physics import FRAMEWORKS
from analysis.kernels.work import Floats, Work
from analysis.paths import DATA
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.kernels import fit, splits, wheel
from analysis.studies.kernels.splits import Cell
from analysis.studies.statistics import sign_flip_test
from analysis.tables import read_csv, write_csv

TEST_ROWS = 1500  # of a cell at most, drawn
BASELINE_ROWS = 4000  # that the roofline is fitted on
TREES_ROWS = 600  # of a cell, that the boosted trees of the baseline are fitted on
BASELINES = {"roofline": "roofline", "nearest": "nearest shape", "trees": "boosted trees"}
HOST_LAUNCH = 10.0  # times bf16's shortest kernel: no kernel of these sizes is that slow, its launch by the host was timed


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
    """Time of the nearest fitted shape of the same cell and variant (s)."""
    out = np.full(len(rows), np.nan)
    for one in np.unique(cell.variant):
        have, want = known[cell.variant[known] == one], cell.variant[rows] == one
        if len(have) and want.any():
            out[want] = cell.seconds[have[cKDTree(_logs(cell, have)).query(_logs(cell, rows[want]))[1]]]
    return out


def _logs(cell: Cell, rows: np.ndarray) -> Floats:
    return np.log(np.maximum(np.stack([v[rows] for v in cell.sizes.values()], axis=1), 0.5))


def nearest_elsewhere(cell: Cell, rows: np.ndarray, others: list[tuple[Cell, np.ndarray]], shares: Floats) -> Floats:
    """Median of the times of the nearest shape on each other GPU, scaled by the rooflines' ratio; same framework if one has it (s)."""
    chosen = [o for o in others if o[0].framework == cell.framework] or others
    here, found = roofline(cell, rows, shares), []
    for other, known in chosen:
        answer = np.full(len(rows), np.nan)
        for one in np.unique(cell.variant[rows]):
            have, want = known[other.variant[known] == one], cell.variant[rows] == one
            if len(have):
                have = have[cKDTree(_logs(other, have)).query(_logs(cell, rows[want]))[1]]
                answer[want] = other.seconds[have] * here[want] / roofline(other, have, shares)
        found.append(answer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a variant that no other GPU has stays without an answer
        median: Floats = np.nanmedian(np.stack(found), axis=0)
    return median


def plain_columns(cell: Cell, rows: np.ndarray) -> Floats:
    """Columns of the boosted trees that are a baseline: sizes, the roofline's times, data sheet, framework, variant; for GEMM, waves."""
    gpu, (compute, memory) = gpus.load(cell.system), roofline_times(cell, rows)
    names = sorted({"", "balanced", "power_law_1.01", "power_law_1.2", "bf16/bf16", "bf16/fp8", "fp8/bf16", "fp8/fp8"})
    sheet = (gpu.sms, gpu.bandwidth_bytes_per_s, gpu.peak_flop_per_s[cell.dtype or "bf16"], gpu.l2_bytes, gpu.tdp_w)
    columns = [_logs(cell, rows), np.log(np.stack([compute, memory, np.maximum(compute, memory)], axis=1))]
    columns.append(np.tile([*np.log(sheet), float(FRAMEWORKS.index(cell.framework))], (len(rows), 1)))
    columns.append(np.array([names.index(v) if v in names else -1 for v in cell.variant[rows]], dtype=np.float64)[:, None])
    if cell.operator == "gemm":
        m, n = cell.sizes["m"][rows], cell.sizes["n"][rows]
        waves = [np.ceil(m / a) * np.ceil(n / b) / gpu.sms for a, b in ((256, 128), (128, 128), (64, 128), (64, 64))]
        columns += [np.log(np.stack(waves, axis=1)), np.stack([np.ceil(w) / w for w in waves], axis=1)]
    return np.concatenate(columns, axis=1)


class Boosted(NamedTuple):
    """The baseline of boosted trees: scikit-learn's, on the log of time over roofline."""

    model: Any

    def __call__(self, cell: Cell, rows: np.ndarray) -> Floats:
        """Its answer (s)."""
        return np.maximum(*roofline_times(cell, rows)) * np.exp(self.model.predict(plain_columns(cell, rows)))


def fit_boosted(known: list[tuple[Cell, np.ndarray]]) -> Boosted:
    """Boosted trees on some rows of some cells, without the first time's physics."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    x = np.concatenate([plain_columns(cell, rows) for cell, rows in known])
    y = np.concatenate([np.log(cell.seconds[rows] / np.maximum(*roofline_times(cell, rows))) for cell, rows in known])
    settings: dict[str, Any] = {"max_iter": 150, "max_leaf_nodes": 31, "learning_rate": 0.1, "early_stopping": False, "random_state": 0}
    return Boosted(HistGradientBoostingRegressor(**settings).fit(x, y))


def timed_with_host(cells: list[Cell]) -> set[str]:
    """Keys of GEMM cells whose shortest kernels take over `HOST_LAUNCH` times those of bf16 by the same framework on the same GPU."""
    shortest = {cell.key: float(np.quantile(cell.seconds, 0.01)) for cell in cells}
    return {
        cell.key
        for cell in cells
        if cell.operator == "gemm" and shortest[cell.key] > HOST_LAUNCH * shortest.get(f"{cell.system}/{cell.framework}/bf16", np.inf)
    }


def score(cells: list[Cell], folder: Path | None = None, seed: int = 0) -> pd.DataFrame:
    """Every drawn test row of an operator: the measured time, ours in both settings with its spread, and the baselines'.

    Returns:
        columns system, architecture, framework, dtype, variant, host (its launch by the host was timed), seconds, ours_s, log_sd,
        hidden_s, hidden_log_sd, and of each baseline (roofline, nearest, trees) its answer on the measured GPU and, with `hidden_` before
        it, with the architecture left out.
    """
    rng, operator = np.random.default_rng(seed), cells[0].operator
    levels, measured, pooled = (
        physics.read_sustained(folder),
        trees.read(f"measured_{operator}", folder),
        trees.read(f"pooled_{operator}", folder),
    )
    carried = laws.read(folder)
    place = {cell.key: splits.bucket(cell.sizes) for cell in cells}
    each = max(200, 4 * BASELINE_ROWS // len(cells))
    base_rows = {cell.key: rng.permutation(np.flatnonzero(place[cell.key] > 1))[:each] for cell in cells}
    drawn = np.random.default_rng(seed + 1)
    tree_rows = {cell.key: drawn.permutation(np.flatnonzero(place[cell.key] > 1))[:TREES_ROWS] for cell in cells}
    host = timed_with_host(cells)
    parts = []
    for dtype in sorted({cell.dtype for cell in cells}):
        of_type = [cell for cell in cells if cell.dtype == dtype]
        known = {c.key: (*roofline_times(c, base_rows[c.key]), c.seconds[base_rows[c.key]]) for c in of_type}
        shares = {"none": fit_roofline(list(known.values()))}
        for left_out in ARCHITECTURES:
            rest = [known[c.key] for c in of_type if gpus.load(c.system).architecture != left_out]
            if rest:
                shares[left_out] = fit_roofline(rest)
        with_rows = [(c, tree_rows[c.key]) for c in of_type]
        elsewhere = {a: [o for o in with_rows if gpus.load(o[0].system).architecture != a] for a in shares}
        seen = {gpus.load(c.system).architecture for c in of_type} | {"none"}
        boosted = {a: fit_boosted(elsewhere[a]) for a in shares if a in seen}
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
            frame["variant"], frame["host"] = cell.variant[rows], cell.key in host
            frame["ours_s"] = got.base_s * np.exp(trees.predict(model.forest, got.values))
            frame["log_sd"] = model.log_sd[np.digitize(got.base_s, model.edges)]
            frame["roofline_s"] = roofline(cell, rows, shares["none"])
            frame["nearest_s"] = nearest(cell, np.flatnonzero(place[cell.key] > 1), rows)
            frame["trees_s"] = boosted["none"](cell, rows)
            others = any(gpus.load(c.system).architecture != architecture for c in of_type)
            hidden = pooled.get(f"{architecture}/{dtype}") or pooled.get(f"{architecture}/")
            if hidden and others:
                level = physics.carried(operator, levels[architecture])
                got, model = fit.features(cell, rows, level), hidden
                if laws.used(operator, f"{architecture}/{dtype}", pooled):
                    got = fit.lawful(cell, rows, got, carried[operator][architecture], level)
                frame["hidden_s"] = np.exp(fit.elsewhere(cell, rows, got, model.forest))
                frame["hidden_log_sd"] = model.log_sd[np.digitize(got.base_s, model.edges)]
                frame["hidden_roofline_s"] = roofline(cell, rows, shares[architecture])
                frame["hidden_nearest_s"] = nearest_elsewhere(cell, rows, elsewhere[architecture], shares[architecture])
                frame["hidden_trees_s"] = boosted[architecture](cell, rows)
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
    for name, c in baselines.items():
        other = np.log(part[c].to_numpy(np.float64) / part["seconds"].to_numpy(np.float64))
        other = other[np.isfinite(other)]
        line[name] = float(np.median(np.abs(np.expm1(other)))) if len(other) else np.nan
    return line


def accuracy(rows: pd.DataFrame, operator: str) -> pd.DataFrame:
    """Medians by GPU and number type, and over all, of both settings; errors and shares as fractions."""
    out = []
    for setting, answer, sd, baselines in (
        ("measured gpu", "ours_s", "log_sd", {f"{b}_median_error": f"{b}_s" for b in BASELINES}),
        ("unmeasured architecture", "hidden_s", "hidden_log_sd", {f"{b}_median_error": f"hidden_{b}_s" for b in BASELINES}),
    ):
        if answer not in rows:
            continue
        have = rows[rows[answer].notna()]
        kernels = have[~have["host"]].assign(dtype="all, kernels alone") if have["host"].any() else have[:0]
        by_keys = [(have, keys) for keys in (["system", "dtype"], ["system"], ["architecture"], ["dtype"], [])]
        for frame, keys in by_keys + [(kernels, keys) for keys in (["system", "dtype"], ["architecture", "dtype"], ["dtype"])]:
            for key, part in frame.groupby(keys) if keys else [((), frame)]:
                names = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
                if "dtype" in names and not names["dtype"]:
                    continue
                where = names.get("system", names.get("architecture", "all"))
                line = {"operator": operator, "setting": setting, "gpus": where, "dtype": names.get("dtype") or "all"}
                out.append(line | _line(part, answer, sd, baselines))
    return pd.DataFrame(out)


def score_siblings(cells: list[Cell], rows_of_a_cell: int = 300, seed: int = 0) -> pd.DataFrame:
    """Held-out rows of the GPUs that have a timed sibling, answered by the sibling's forests: one line a GPU, type and over all.

    Returns:
        columns operator, gpus, dtype, rows, median_error, p90_error, bias, coverage_90, interval_factor.
    """
    from analysis.kernels.library import SIBLING_SD

    operator = cells[0].operator
    rng, models, levels, parts = np.random.default_rng(seed), trees.read(f"measured_{operator}"), physics.read_sustained()["none"], []
    for cell in cells:
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


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """How much smaller is our median error than a baseline's, over architectures? One line an operator, setting and baseline.

    Args:
        scores: rows of `accuracy`; those of whole architectures are read.
    Returns:
        columns operator, setting, baseline, architectures (count), gain (mean over architectures, 1), low, high (95 % interval,
        architectures resampled), contains_zero, lost (architectures on which the baseline is better, count), p (exact sign flips).
    """
    whole = scores[scores["gpus"].isin(ARCHITECTURES) & (scores["dtype"] == "all")]
    out = []
    for (operator, setting), part in whole.groupby(["operator", "setting"]):
        for key, baseline in BASELINES.items():
            gain = (part[f"{key}_median_error"] - part["median_error"]).dropna()
            found = cluster_bootstrap(np.mean, part["gpus"][gain.index].to_numpy(), gain, together=True)
            line: dict[str, object] = {"operator": operator, "setting": setting, "baseline": baseline, "architectures": found.clusters}
            line |= {"gain": found.value, "low": found.low, "high": found.high}
            line |= {"contains_zero": "yes" if found.contains_zero else "no", "lost": int((gain < 0).sum())}
            out.append(line | {"p": sign_flip_test(gain).p_value})
    return pd.DataFrame(out)


def freeze(path: Path, operators: tuple[str, ...], place: Path) -> None:
    """Score some operators and renew their rows of `accuracy.csv` and `siblings.csv`."""
    for operator in operators:
        cells = list(splits.cells(path, operator))
        for name, new in {"accuracy": accuracy(score(cells), operator), "siblings": score_siblings(cells)}.items():
            file = place / f"{name}.csv"
            old = read_csv(file) if file.is_file() else new[:0]
            write_csv(pd.concat([old[old["operator"] != operator], new], ignore_index=True).sort_values("operator", kind="stable"), file)


if __name__ == "__main__":
    import sys

    freeze(wheel.find(), tuple(sys.argv[1:]) or tuple(splits.SIZES), DATA / "frozen" / "kernels_today")
