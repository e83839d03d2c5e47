"""What follows from NeuroScalar's own numbers: parameters, cycles, clock, sampling, energy, area, buffers and its tables of matches?"""

from __future__ import annotations

from analysis.artifact.claims.arithmetic import cell, printed_table
from analysis.studies.checkable import SmallCount, checkable

TABLE2 = "claims/printed/neuroscalar_table2"
TABLE3 = "claims/printed/neuroscalar_table3"
PAIRWISE = "published/neuroscalar_pairwise"
LOOK_UPS = "claims/observed/look_ups"

EPOCH = 100_000
HOST_MIPS = 3000.0


@checkable
def lstm_parameters(inputs: int = 13, hidden: int = 256, layers: SmallCount = 2, bidirectional: bool = False, projection: int = 256) -> int:
    """Parameters of the model: projection, LSTM with two biases a layer, a 64-wide two-way classifier and two one-number heads.

    A layer and direction has 4 h (n + h + 2); a bidirectional layer hands 2 h on to the next layer and to the heads.
    """
    directions = 2 if bidirectional else 1
    width = projection
    count = projection * inputs + projection
    for _ in range(layers):
        count += directions * 4 * hidden * (width + hidden + 2)
        width = directions * hidden
    heads = 64 * width + 64 + 2 * 64 + 2 + 2 * (width + 1)
    return count + heads


@checkable
def flop_per_instruction() -> int:
    """Floating-point operations an instruction needs: two for each of the model's weights (biases left out)."""
    shapes = printed_table("claims/printed/neuroscalar_parameters")
    weights = shapes[shapes["parameter"].str.contains("weight")]
    return int(2 * (weights["rows"] * weights["columns"]).sum())


@checkable
def layer_cycles(instructions: int = 1, hidden: int = 256, lanes: int = 256) -> float:
    """Multiply cycles of one LSTM layer: eight h x h products (four gates, input and state) for each instruction."""
    return 8 * instructions * hidden * hidden / lanes


@checkable
def utilization_pct(instructions: int, cycles: float = 8264) -> float:
    """Multiply cycles over the printed cycles of a layer, in percent."""
    return 100.0 * layer_cycles(instructions) / cycles


@checkable
def clock_mhz(cycles_per_instruction: float, tiles: int = 1) -> float:
    """Clock that the printed rate implies: instructions per second * cycles per instruction."""
    return neutrino_mips(tiles) * cycles_per_instruction


@checkable
def neutrino_mips(tiles: int = 1) -> float:
    """Rate from the printed sampling rate: host rate / denominator (million instructions per second)."""
    return HOST_MIPS / float(cell(TABLE3, {"tiles": tiles}, "sampling_denominator"))


@checkable
def neutrino_epoch_s(tiles: int = 1) -> float:
    """Seconds between epochs from the printed sampling rate: denominator * epoch / host rate."""
    return float(cell(TABLE3, {"tiles": tiles}, "sampling_denominator")) * EPOCH / (HOST_MIPS * 1e6)


@checkable
def gpu_epoch_s(mips: float, overhead: float = 0.001) -> float:
    """Seconds between epochs that keep a GPU busy for the share `overhead` of the time."""
    return EPOCH / (mips * 1e6) / overhead


@checkable
def gpu_epoch_instructions(mips: float, overhead: float = 0.001) -> float:
    """Instructions that the host retires between two sampled epochs."""
    return gpu_epoch_s(mips, overhead) * HOST_MIPS * 1e6


@checkable
def gpu_mips(gpu: str) -> float:
    """Rate of a GPU by Table 2 (million instructions per second)."""
    return float(cell(TABLE2, {"gpu": gpu}, "mean_instructions_per_s")) / 1e6


@checkable
def energy_ratio(mips: float | None = None, watts: float | None = None, tiles: int = 1) -> float:
    """Inferences a joule of Neutrino over those of a GPU.

    Args:
        mips: rate of the GPU; default Table 2's RTX 4090.
        watts: power of the GPU; default the board power looked up.
    """
    mips = gpu_mips("RTX 4090") if mips is None else mips
    watts = float(cell(LOOK_UPS, {"id": "rtx4090_power_w"}, "value")) if watts is None else watts
    power_w = float(cell(TABLE3, {"tiles": tiles}, "power_mw")) / 1000.0
    return (neutrino_mips(tiles) / power_w) / (mips / watts)


@checkable
def gpu_mips_for_energy_ratio(target: float = 85.0, watts: float = 450.0) -> float:
    """Rate of the GPU at which the energy ratio is `target`."""
    return energy_ratio(mips=1.0, watts=watts) / target


@checkable
def speed_ratio(mips: float | None = None, tiles: int = 1) -> float:
    """How many times slower Neutrino is than a GPU (default Table 2's RTX 4090)."""
    return (gpu_mips("RTX 4090") if mips is None else mips) / neutrino_mips(tiles)


@checkable
def performance_gain(mips: float | None = None, tiles: int = 1) -> float:
    """Neutrino's rate over that of a GPU (default Table 2's RTX 4090): below one where Neutrino is slower."""
    return 1.0 / speed_ratio(mips, tiles)


@checkable
def area_ratio(die_mm2: float | None = None, tiles: int = 1) -> float:
    """Area of a GPU die over Neutrino's total area (default the RTX 4090's die looked up)."""
    die = float(cell(LOOK_UPS, {"id": "rtx4090_die_mm2"}, "value")) if die_mm2 is None else die_mm2
    return die / float(cell(TABLE3, {"tiles": tiles}, "total_area"))


@checkable
def gpu_flops_share_pct(mips: float | None = None, peak_tflops: float = 330.0) -> float:
    """Arithmetic of the model at a GPU's rate over the GPU's peak, in percent."""
    rate = gpu_mips("RTX 4090") if mips is None else mips
    return 100.0 * flop_per_instruction() * rate * 1e6 / (peak_tflops * 1e12)


@checkable
def gt_better_spread(kind: str = "max") -> float:
    """How far apart the share GT-better is over the ten pairs of one benchmark (percentage points): mean or largest over benchmarks."""
    grouped = printed_table(PAIRWISE).groupby("bench")["gt_better"]
    spread = grouped.max() - grouped.min()
    return float(spread.max() if kind == "max" else spread.mean())


@checkable
def deviation_over_pairs() -> float:
    """Mean over benchmarks of the standard deviation of the match rate over its ten pairs (percentage points)."""
    return float(printed_table(PAIRWISE).groupby("bench")["match"].std().mean())


@checkable
def deviation_over_benchmarks() -> float:
    """Standard deviation over benchmarks of the mean match rate (percentage points)."""
    return float(printed_table(PAIRWISE).groupby("bench")["match"].mean().std())


@checkable
def depths_won(metrics: list[str], smaller_is_better: list[str]) -> int:
    """In how many of the metrics of Table 1 depth 2 is the best of the three."""
    rows = printed_table("claims/printed/neuroscalar_table1").set_index("layers")
    won = 0
    for metric in metrics:
        best = rows[metric].idxmin() if metric in smaller_is_better else rows[metric].idxmax()
        won += int(best == 2)
    return won


@checkable
def nearest_column(column: str = "acc_round(last col)") -> str:
    """Which other column of the appendix tracks the last one most closely (smallest mean distance)."""
    rows = printed_table("published/neuroscalar_appendix_metrics")
    others = ["rel5", "within1", "within2"]
    distance = {other: float((rows[other] - rows[column]).abs().mean()) for other in others}
    return min(distance, key=lambda other: distance[other])
