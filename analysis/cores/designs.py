"""What is a core design: widths, queues, units, predictor, caches and memory, read from YAML.

Source of the five named designs: NeuroScalar, Table 4. What the table leaves open is gem5 24.0's default for its out-of-order RISC-V core,
as the recorded runs used it (data/recorded/gem5/README.md); the chapter on timing lists each such choice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA

DESIGNS = DATA / "cores" / "designs"
TABLE_4 = ("8w", "6w+ls", "rob", "lsq", "4w+mem")

Width = Annotated[int, Field(ge=1, le=16)]
Count = Annotated[int, Field(ge=1)]
Cycles = Annotated[int, Field(ge=1)]
PowerOfTwo = Annotated[int, Field(ge=1)]


class Unit(Strict):
    """A kind of functional unit.

    Attributes:
        count: how many there are.
        latency_cycles: latency of each class of operation it executes (cycles).
        unpipelined: the classes that occupy the unit until they are done.
    """

    count: Annotated[int, Field(ge=1, le=16)]
    latency_cycles: dict[str, Annotated[int, Field(ge=1, le=100)]]
    unpipelined: tuple[str, ...] = ()


class Units(Strict):
    """The pool of functional units (gem5: FuncUnitConfig.py)."""

    int_alu: Unit = Unit(count=6, latency_cycles={"int_alu": 1})
    int_mult_div: Unit = Unit(count=2, latency_cycles={"int_mult": 3, "int_div": 20}, unpipelined=("int_div",))
    float_alu: Unit = Unit(count=4, latency_cycles={"float_add": 2, "float_cmp": 2, "float_cvt": 2})
    float_mult_div: Unit = Unit(
        count=2,
        latency_cycles={"float_mult": 4, "float_mult_acc": 5, "float_misc": 3, "float_div": 12, "float_sqrt": 24},
        unpipelined=("float_div", "float_sqrt"),
    )
    load_store_ports: Annotated[int, Field(ge=1, le=16)] = 4


class BranchPrediction(Strict):
    """Front-end prediction (gem5: BranchPredictor.py)."""

    kind: Literal["tournament", "perfect"] = "tournament"
    local_entries: Annotated[int, Field(ge=2, le=65536)] = 2048
    local_histories: Annotated[int, Field(ge=2, le=65536)] = 2048
    global_entries: Annotated[int, Field(ge=2, le=65536)] = 8192
    btb_entries: Annotated[int, Field(ge=2, le=65536)] = 4096
    return_stack_entries: Annotated[int, Field(ge=1, le=256)] = 16


class Cache(Strict):
    """One cache (write-back, write-allocate, least recently used).

    Attributes:
        size_bytes, ways: capacity and associativity; sets must be a power of two.
        tag_cycles, data_cycles: looked up in parallel.
        response_cycles: from a fill to the waiting access.
        mshrs: misses in flight.
        targets_per_mshr: accesses that may wait for one miss (not counted in L2: the L1 caches cannot reach the limit).
        write_buffers: evicted lines that wait for the next level; the cache refuses requests while all are taken.
        perfect: every access hits.
    """

    size_bytes: Count
    ways: Count
    tag_cycles: Cycles
    data_cycles: Cycles
    response_cycles: Cycles
    mshrs: Annotated[int, Field(ge=1, le=64)]
    targets_per_mshr: Annotated[int, Field(ge=1, le=256)] = 20
    write_buffers: Annotated[int, Field(ge=1, le=64)] = 8
    perfect: bool = False


class Memory(Strict):
    """Buses, controller and DRAM (gem5: XBar.py, MemCtrl.py, DRAMInterface.py: DDR3_1600_8x8; times in ps).

    Attributes:
        write_entries: lines that wait to be written; writing starts above `write_high_percent` of them, or above `write_low_percent`
            while no read waits, and goes on for `writes_per_switch` lines at least while reads wait.
        activations_per_window: rows of one rank that may be opened within `activation_window_ps`; 0 for no limit.
    """

    l2_bus_request_cycles: int = 1
    l2_bus_response_cycles: int = 1
    l2_bus_bytes_per_cycle: Count = 32
    bus_period_ps: Count = 500
    bus_request_cycles: int = 8
    bus_response_cycles: int = 2
    bus_bytes_per_cycle: Count = 16
    row_bytes: Count = 8192
    banks: Annotated[int, Field(ge=1, le=64)] = 16
    ranks: Annotated[int, Field(ge=1, le=8)] = 2
    accesses_per_row: Count = 16
    activate_to_activate_ps: int = 6000
    activate_to_read_ps: int = 13750
    read_to_data_ps: int = 13750
    precharge_ps: int = 13750
    activate_to_precharge_ps: int = 35000
    burst_ps: int = 5000
    read_to_precharge_ps: int = 7500
    write_recovery_ps: int = 15_000
    write_to_read_ps: int = 7500
    read_to_write_ps: int = 2500
    rank_to_rank_ps: int = 2500
    activation_window_ps: int = 30_000
    activations_per_window: Annotated[int, Field(ge=0, le=8)] = 4
    refresh_interval_ps: int = 7_800_000
    refresh_ps: int = 260_000
    controller_front_ps: int = 10_000
    controller_back_ps: int = 10_000
    write_entries: Annotated[int, Field(ge=1, le=256)] = 64
    write_high_percent: Annotated[int, Field(ge=1, le=100)] = 85
    write_low_percent: Annotated[int, Field(ge=0, le=99)] = 50
    writes_per_switch: Count = 16
    reads_per_switch: Count = 16


class Design(Strict):
    """An out-of-order core with its caches and memory. Defaults: gem5 24.0's O3 model (BaseO3CPU.py)."""

    name: str
    width: Width = 8
    clock_hz: Count = 2_000_000_000
    fetch_buffer_bytes: PowerOfTwo = 64
    fetch_queue_entries: Annotated[int, Field(ge=1, le=256)] = 32
    rob_entries: Annotated[int, Field(ge=8, le=1024)] = 192
    issue_queue_entries: Annotated[int, Field(ge=8, le=512)] = 64
    load_queue_entries: Annotated[int, Field(ge=2, le=512)] = 32
    store_queue_entries: Annotated[int, Field(ge=2, le=512)] = 32
    int_registers: Annotated[int, Field(ge=40)] = 256
    float_registers: Annotated[int, Field(ge=40)] = 256
    squash_width: Width | None = None
    dependence_check_bytes: PowerOfTwo = 16
    store_set_clear_period: Count = 250_000
    memory_speculation: bool = True
    wrong_path: bool = True
    forwarding_cycles: Cycles = 1
    prefetch_lines: Annotated[int, Field(ge=0, le=16)] = 0
    branch_prediction: BranchPrediction = BranchPrediction()
    units: Units = Units()
    line_bytes: PowerOfTwo = 64
    l1i: Cache = Cache(size_bytes=65536, ways=2, tag_cycles=2, data_cycles=2, response_cycles=2, mshrs=4)
    l1d: Cache = Cache(size_bytes=65536, ways=2, tag_cycles=2, data_cycles=2, response_cycles=2, mshrs=4)
    l2: Cache = Cache(size_bytes=2097152, ways=8, tag_cycles=20, data_cycles=20, response_cycles=20, mshrs=20, targets_per_mshr=12)
    memory: Memory = Memory()


def load_design(name_or_path: str | Path) -> Design:
    """Read a design: one of `TABLE_4` (or another file of data/cores/designs), or the path of a YAML file.

    Raises:
        InputError: no such design, an unknown key, a value out of range; names file, line and key.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = DESIGNS / f"{name_or_path}.yaml"
        if not path.exists():
            known = ", ".join(sorted(file.stem for file in DESIGNS.glob("*.yaml")))
            raise InputError(f"no such design; known: {known}, or the path of a .yaml file", key=str(name_or_path))
    design = read_yaml(path, Design)
    for key, size in (("fetch_buffer_bytes", design.fetch_buffer_bytes), ("line_bytes", design.line_bytes),
                      ("dependence_check_bytes", design.dependence_check_bytes)):  # fmt: skip
        if size & (size - 1):
            raise InputError(f"expected a power of two, got {size}", path=path, key=key)
    if design.fetch_buffer_bytes > design.line_bytes:
        raise InputError("expected at most one cache line", path=path, key="fetch_buffer_bytes")
    for key in ("l1i", "l1d", "l2"):
        cache = getattr(design, key)
        sets = cache.size_bytes // (design.line_bytes * cache.ways)
        if sets * design.line_bytes * cache.ways != cache.size_bytes or sets & (sets - 1):
            raise InputError(
                f"expected a power of two sets, got {cache.size_bytes / (design.line_bytes * cache.ways):g}", path=path, key=key
            )
    prediction = design.branch_prediction
    for key in ("local_entries", "local_histories", "global_entries", "btb_entries"):
        size = getattr(prediction, key)
        if size & (size - 1):
            raise InputError(f"expected a power of two, got {size}", path=path, key=f"branch_prediction.{key}")
    return design
