"""What is a core design: widths, queues, units, predictor, caches and memory, read from YAML.

Source of the five named designs: NeuroScalar, Table 4. What the table leaves open is gem5 24.0's default for its out-of-order RISC-V core,
as the recorded runs used it (data/recorded/gem5/README.md); the chapter on timing lists each such choice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from analysis.configs import Strict, read_yaml
from analysis.cores.riscv.trace import OpClass
from analysis.cores.timing.state import EVENT_HORIZON, MAX_LINES
from analysis.errors import InputError
from analysis.paths import DATA

DESIGNS = DATA / "cores" / "designs"
TABLE_4 = ("8w", "6w+ls", "rob", "lsq", "4w+mem")

UNIT_CLASSES = tuple(c.name.lower() for c in OpClass if c <= OpClass.FLOAT_SQRT)
"""Operation classes that a functional unit must execute; memory has ports, control transfers are integer operations."""


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("expected a power of two")
    return value


Width = Annotated[int, Field(ge=1, le=16)]
Count = Annotated[int, Field(ge=1, le=1 << 32)]
Cycles = Annotated[int, Field(ge=1, le=1_000_000)]
BusCycles = Annotated[int, Field(ge=0, le=1_000_000)]
Picoseconds = Annotated[int, Field(ge=0, le=1_000_000_000)]
Registers = Annotated[int, Field(ge=40, le=1 << 16)]
PowerOfTwo = Annotated[int, Field(ge=1, le=4096), AfterValidator(_power_of_two)]
TableEntries = Annotated[int, Field(ge=2, le=65536), AfterValidator(_power_of_two)]


class Unit(Strict):
    """A kind of functional unit.

    Attributes:
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

    @model_validator(mode="after")
    def _each_class_once(self) -> Self:
        kinds = (self.int_alu, self.int_mult_div, self.float_alu, self.float_mult_div)
        executed = [name for unit in kinds for name in unit.latency_cycles]
        for name in (*executed, *(name for unit in kinds for name in unit.unpipelined)):
            if name not in UNIT_CLASSES:
                raise ValueError(f"unknown operation class {name!r}; known: {', '.join(UNIT_CLASSES)}")
        for name in UNIT_CLASSES:
            if executed.count(name) != 1:
                raise ValueError(f"expected one kind of unit that executes {name}, got {executed.count(name)}")
        return self


class BranchPrediction(Strict):
    """Front-end prediction (gem5: BranchPredictor.py): the tournament predictor, or always right."""

    kind: Literal["tournament", "perfect"] = "tournament"
    local_entries: TableEntries = 2048
    local_histories: TableEntries = 2048
    global_entries: TableEntries = 8192
    btb_entries: TableEntries = 4096
    return_stack_entries: Annotated[int, Field(ge=1, le=256)] = 16


class Cache(Strict):
    """One cache (write-back, write-allocate, least recently used).

    Attributes:
        size_bytes, ways: capacity and associativity; sets must be a power of two.
        tag_cycles, data_cycles: looked up in parallel.
        response_cycles: from a fill to the waiting access.
        targets_per_mshr: accesses that may wait for one miss (not counted in L2: the L1 caches cannot reach the limit).
        write_buffers: evicted lines that wait for the next level; the cache refuses requests while all are taken.
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

    No refresh when its interval is 0.

    Attributes:
        write_entries: lines that wait to be written; writing starts above `write_high_percent` of them, or above `write_low_percent`
            while no read waits, and goes on for `writes_per_switch` lines at least while reads wait.
        activations_per_window: rows of one rank that may be opened within `activation_window_ps`; 0 for no limit.
    """

    l2_bus_request_cycles: BusCycles = 1
    l2_bus_response_cycles: BusCycles = 1
    l2_bus_bytes_per_cycle: Count = 32
    bus_period_ps: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    bus_request_cycles: BusCycles = 8
    bus_response_cycles: BusCycles = 2
    bus_bytes_per_cycle: Count = 16
    row_bytes: Annotated[int, Field(ge=1, le=1 << 20), AfterValidator(_power_of_two)] = 8192
    banks: Annotated[int, Field(ge=1, le=64), AfterValidator(_power_of_two)] = 16
    ranks: Annotated[int, Field(ge=1, le=8), AfterValidator(_power_of_two)] = 2
    accesses_per_row: Count = 16
    activate_to_activate_ps: Picoseconds = 6000
    activate_to_read_ps: Picoseconds = 13750
    read_to_data_ps: Picoseconds = 13750
    precharge_ps: Picoseconds = 13750
    activate_to_precharge_ps: Picoseconds = 35000
    burst_ps: Picoseconds = 5000
    read_to_precharge_ps: Picoseconds = 7500
    write_recovery_ps: Picoseconds = 15_000
    write_to_read_ps: Picoseconds = 7500
    read_to_write_ps: Picoseconds = 2500
    rank_to_rank_ps: Picoseconds = 2500
    activation_window_ps: Picoseconds = 30_000
    activations_per_window: Annotated[int, Field(ge=0, le=8)] = 4
    refresh_interval_ps: Picoseconds = 7_800_000
    refresh_ps: Picoseconds = 260_000
    controller_front_ps: Picoseconds = 10_000
    controller_back_ps: Picoseconds = 10_000
    write_entries: Annotated[int, Field(ge=1, le=256)] = 64
    write_high_percent: Annotated[int, Field(ge=1, le=100)] = 85
    write_low_percent: Annotated[int, Field(ge=0, le=99)] = 50
    writes_per_switch: Count = 16
    reads_per_switch: Count = 16

    @model_validator(mode="after")
    def _work_gets_done(self) -> Self:
        busy = self.refresh_ps + 2 * self.precharge_ps
        if 0 < self.refresh_interval_ps <= busy:
            raise ValueError(f"expected a refresh_interval_ps of 0 or above refresh_ps + 2 precharge_ps, {busy}")
        if self.write_low_percent >= self.write_high_percent:
            raise ValueError(f"write_low_percent: expected below write_high_percent, {self.write_high_percent}")
        return self


class Design(Strict):
    """An out-of-order core with its caches and memory. Defaults: gem5 24.0's O3 model (BaseO3CPU.py)."""

    name: str
    width: Width = 8
    clock_hz: Annotated[int, Field(ge=1_000_000, le=100_000_000_000)] = 2_000_000_000
    fetch_buffer_bytes: PowerOfTwo = 64
    fetch_queue_entries: Annotated[int, Field(ge=1, le=256)] = 32
    rob_entries: Annotated[int, Field(ge=8, le=1024)] = 192
    issue_queue_entries: Annotated[int, Field(ge=8, le=512)] = 64
    load_queue_entries: Annotated[int, Field(ge=2, le=512)] = 32
    store_queue_entries: Annotated[int, Field(ge=2, le=512)] = 32
    int_registers: Registers = 256
    float_registers: Registers = 256
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

    @model_validator(mode="after")
    def _caches_of_whole_lines(self) -> Self:
        if self.fetch_buffer_bytes > self.line_bytes:
            raise ValueError(f"fetch_buffer_bytes: expected at most a cache line of {self.line_bytes}, got {self.fetch_buffer_bytes}")
        for name, cache in (("l1i", self.l1i), ("l1d", self.l1d), ("l2", self.l2)):
            sets = cache.size_bytes / (self.line_bytes * cache.ways)
            if not sets.is_integer() or int(sets) & (int(sets) - 1):
                raise ValueError(f"{name}: expected a power of two sets, got {sets:g}")
        lines = sum(cache.size_bytes for cache in (self.l1i, self.l1d, self.l2)) // self.line_bytes
        if lines > MAX_LINES:
            raise ValueError(f"l1i, l1d, l2: expected at most {MAX_LINES} lines together, got {lines}")
        return self

    @model_validator(mode="after")
    def _answers_within_the_calendar(self) -> Self:
        """The simulator's calendar of events ends some cycles ahead: the slowest answer must come before."""
        memory = self.memory
        own = sum(cache.tag_cycles + cache.data_cycles + cache.response_cycles for cache in (self.l1i, self.l1d, self.l2))
        l2_bus = memory.l2_bus_request_cycles + memory.l2_bus_response_cycles + self.line_bytes // memory.l2_bus_bytes_per_cycle
        bus = memory.bus_request_cycles + memory.bus_response_cycles + self.line_bytes // memory.bus_bytes_per_cycle
        dram = memory.refresh_ps + memory.controller_front_ps + memory.controller_back_ps + 2 * memory.activate_to_precharge_ps
        dram += 4 * (memory.activate_to_read_ps + memory.read_to_data_ps + memory.precharge_ps + memory.burst_ps)
        dram += memory.write_recovery_ps + memory.write_to_read_ps + memory.read_to_write_ps + memory.rank_to_rank_ps
        dram += memory.activation_window_ps + memory.activate_to_activate_ps + memory.read_to_precharge_ps
        cycles = own + l2_bus + (bus * memory.bus_period_ps + dram) * self.clock_hz / 1e12
        if cycles > EVENT_HORIZON // 2:
            raise ValueError(f"l1i, l1d, l2, memory: expected latencies of at most {EVENT_HORIZON // 2} cycles together, got {cycles:.0f}")
        return self


def load_design(name_or_path: str | Path) -> Design:
    """Read a design: one of `TABLE_4` (or another file of data/cores/designs), or the path of a YAML file."""
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        known = {file.stem: file for file in sorted(DESIGNS.glob("*.yaml"))}
        if str(name_or_path) not in known:
            raise InputError(f"no such design; known: {', '.join(known)}, or the path of a .yaml file", key=str(name_or_path))
        path = known[str(name_or_path)]
    return read_yaml(path, Design)
