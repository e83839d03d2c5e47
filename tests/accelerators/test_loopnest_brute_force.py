"""The formulas against a machine that counts every access one by one, on random nests and hierarchies."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level
from analysis.accelerators.loopnest.evaluation import evaluate
from analysis.accelerators.loopnest.mapping import Loop, Mapping
from analysis.accelerators.loopnest.problem import Problem, convolution
from tests.accelerators.brute_force_nest import Machine
from tests.accelerators.nest_strategies import cases

slow = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def assert_equal_to_the_machine(
    problem: Problem, architecture: Architecture, mapping: Mapping, *, sampled: bool, links: bool = False
) -> None:
    """Every count of every kept level, per instance, against the machine's totals."""
    got = evaluate(problem, architecture, mapping, walk="sampled" if sampled else "every", links=links)
    names = [level.name for level in architecture.levels]
    for tensor in problem.tensors:
        counted = Machine(problem, architecture, mapping, sampled, links).run(tensor)
        found = {names.index(a.level): a for a in got.accesses if a.tensor == tensor.name}
        outermost = min(found)
        for level, accesses in found.items():
            content = counted.reads[level] / accesses.instances
            received = counted.received[level] / accesses.instances
            touched = sum(len(words) for words in counted.touched[level].values()) / accesses.instances
            if tensor.read_write:
                assert accesses.updates == content
                assert accesses.partition_words == touched
                assert accesses.reads == content - touched
                assert accesses.fills == (0 if level == outermost else received - touched)
            else:
                assert accesses.reads == content
                assert accesses.updates == 0
                assert accesses.fills == (0 if level == outermost else received)


@slow
@given(case=cases())
def test_every_access_of_the_exact_walk(case: tuple[Problem, Architecture, Mapping]) -> None:
    assert_equal_to_the_machine(*case, sampled=False)


@slow
@given(case=cases())
def test_every_access_of_the_sampled_walk(case: tuple[Problem, Architecture, Mapping]) -> None:
    assert_equal_to_the_machine(*case, sampled=True)


def two_levels(rows: int) -> Architecture:
    keeps = ("Weights", "Inputs", "Outputs")
    return Architecture("two", (Level("L0", keeps, fanout=(Axis("spatial_X", rows),)), Level("L1", keeps, rows)), rows, 0.0)


@slow
@given(
    s=st.sampled_from([2, 3, 4]),
    lanes=st.sampled_from([2, 3, 4]),
    q=st.sampled_from([1, 2, 3]),
    inner=st.sampled_from([1, 2]),
    channels_inside=st.booleans(),
    rows_in_space=st.booleans(),
    stride=st.sampled_from([1, 2]),
    sampled=st.booleans(),
)
def test_words_that_neighbours_pass_on(s, lanes, q, inner, channels_inside, rows_in_space, stride, sampled) -> None:
    # A window that slides over lanes: lane i needs at step t what lane i+1 had at step t-1.
    space, time = ("Q", "S") if rows_in_space else ("S", "Q")
    sizes = {space: lanes * inner, time: (s * q) if time == "S" else s}
    problem = convolution(c=2, m=2, p=1, q=sizes["Q"], s=sizes["S"], stride=stride)
    above = [Loop("C", 2), Loop(time, sizes[time])] if not channels_inside else [Loop(time, sizes[time]), Loop("C", 2)]
    mapping = Mapping(
        (("L0", tuple(above)), ("spatial_X", (Loop(space, lanes),)), ("L1", (Loop("M", 2), Loop(space, inner)))),
    )
    architecture = two_levels(lanes)
    got = evaluate(problem, architecture, mapping, walk="sampled" if sampled else "every")
    inputs = {a.level: a for a in got.accesses if a.tensor == "Inputs"}
    counted = Machine(problem, architecture, mapping, sampled, links=True).run(problem.tensors[1])
    assert inputs["L0"].reads == counted.reads[0]
    assert inputs["L1"].fills == round(counted.received[1] / lanes + counted.linked[1] // lanes)
    assert inputs["L1"].reads == counted.reads[1] / lanes + counted.linked[1] // lanes


def test_a_window_over_lanes_is_passed_on() -> None:
    # Four lanes of outputs, a filter of three steps outside: step 0 reads 4 words, each later step one new word; the rest is passed on.
    problem = convolution(c=1, m=1, p=1, q=4, s=3)
    mapping = Mapping((("L0", (Loop("S", 3),)), ("spatial_X", (Loop("Q", 4),))))
    inputs = {a.level: a for a in evaluate(problem, two_levels(4), mapping).accesses if a.tensor == "Inputs"}
    assert inputs["L0"].reads == 4 + 1 + 1
    without = {a.level: a for a in evaluate(problem, two_levels(4), mapping, links=False).accesses if a.tensor == "Inputs"}
    assert without["L0"].reads == 12


def test_where_the_sampled_walk_departs() -> None:
    # One loop over rows, or the same loop split 2 x 3: the machine does the same work, the sampled walk counts it differently,
    # because it jumps from the second of three steps to the next block.
    problem = convolution(c=1, m=1, p=6, q=1, r=3)
    architecture = two_levels(1)
    split = Mapping((("L0", (Loop("P", 2), Loop("P", 3))), ("L1", (Loop("R", 3),))))
    whole = Mapping((("L0", (Loop("P", 6),)), ("L1", (Loop("R", 3),))))

    def reads(mapping: Mapping, walk) -> int:
        return next(
            a.reads for a in evaluate(problem, architecture, mapping, walk=walk).accesses if (a.level, a.tensor) == ("L0", "Inputs")
        )

    assert reads(whole, "every") == reads(split, "every") == reads(whole, "sampled") == 8
    assert reads(split, "sampled") > 8
