"""The one time of a collective: of three kinds, never faster than its link, the same by both calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.networks.calibrated import form
from analysis.networks.collective_time import collective_s, collective_time, custom_kernels, terms
from analysis.paths import DATA
from analysis.tables import read_csv
from tests.golden import kept

DEVICES = (
    "A100-SXM4-80GB",
    "H100-SXM5-80GB",
    "B200-SXM-180GB",
    "GB200-186GB",
    "MI300X",
    "L40S",
    "A100-PCIE-80GB",
    "TPU-v6e",
    "H20-SXM5-96GB",
)
cases = st.tuples(
    st.sampled_from(form.KINDS),
    st.floats(1.0, 2.0**35),
    st.integers(2, 512),
    st.sampled_from(DEVICES),
    st.sampled_from([1, 2, 8]),
    st.booleans(),
)


def machine(name: str) -> systems.System:
    return systems.of_device(devices.load(name))


@given(cases)
def test_one_size_and_many_give_the_same(case: tuple[str, float, int, str, int, bool]) -> None:
    kind, size, members, name, stride, graph = case
    many = collective_time(kind, np.array([size, 2 * size]), members, machine(name), stride, graph)
    assert collective_s(kind, size, members, machine(name), stride, graph) == pytest.approx(many.seconds[0], rel=1e-12)
    assert many.seconds[1] >= many.seconds[0] > 0 and (many.log_sd > 0).all()


@given(cases)
def test_nothing_beats_its_link(case: tuple[str, float, int, str, int, bool]) -> None:
    """Bytes through the narrowest link over its one-way rate; in a switch that adds, or between two nodes of a tree, each passes once."""
    kind, size, members, name, stride, graph = case
    group = machine(name).group(members, stride)
    least = {"all_reduce": 1.0, "all_to_all": 0.5}.get(kind, 0.5) * size / group.bandwidth_bytes_per_s
    assert collective_s(kind, size, members, machine(name), stride, graph) >= least * 0.999


@given(st.sampled_from(form.KINDS), st.floats(1.0, 2.0**35), st.sampled_from(["H100-SXM5-80GB", "B200-SXM-180GB", "A100-SXM4-80GB"]))
def test_a_network_is_slower_than_a_node(kind: str, size: float, name: str) -> None:
    inside, outside = (collective_s(kind, size, 8, machine(name), stride=stride, graph=False) for stride in (1, 8))
    assert inside < outside


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_a_measured_time_is_the_table_s(kind: str) -> None:
    table = read_csv(DATA / "models" / "gpu_kernels" / "collectives.csv")
    rows = table[(table["system"] == "h100_sxm") & (table["implementation"] == "nccl") & (table["kind"] == kind) & (table["devices"] == 8)]
    rows = rows.sort_values("bytes")
    got = collective_time(kind, rows["bytes"].to_numpy(float), 8, machine("H100-SXM5-80GB"))
    assert got.basis == "measured"
    assert got.seconds == pytest.approx(np.maximum.accumulate(rows["latency_us"].to_numpy(float)) * 1e-6, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "members", "basis"),
    [("H100-SXM5-80GB", 8, "measured"), ("H100-SXM5-80GB", 6, "fabric"), ("H100-SXM5-80GB", 16, "fabric"), ("MI300X", 8, "fabric"),
     ("L40S", 8, "fabric"), ("L40S", 2, "measured"), ("TPU-v6e", 8, "closed form"), ("Gaudi2", 8, "closed form")],
)  # fmt: skip
def test_the_basis_is_what_is_known(name: str, members: int, basis: str) -> None:
    assert collective_time("all_reduce", np.array([1e6]), members, machine(name)).basis == basis


def test_what_is_hidden_is_not_used() -> None:
    """A study that leaves Hopper out reads neither its tables nor parameters that its machines taught."""
    shown, hidden = (collective_time("all_reduce", np.array([1e6]), 8, machine("H100-SXM5-80GB"), hide=h) for h in ("", "hopper"))
    assert shown.basis == "measured" and hidden.basis == "fabric" and hidden.log_sd[0] > 2 * shown.log_sd[0]
    without = form.calibrated().without
    assert not any(devices.load(name).architecture == "hopper" for name in without["hopper"].devices)
    assert set(without) == {devices.load(name).architecture for name in form.calibrated().shipped.devices}


def test_what_is_assumed_is_said() -> None:
    assert collective_time("all_reduce", np.array([1e6]), 16, machine("H20-SXM5-96GB")).assumed == ("400 Gbit/s of network a GPU",)
    assert not collective_time("all_reduce", np.array([1e6]), 16, machine("H100-SXM5-80GB")).assumed
    assert "not used" in collective_time("all_reduce", np.array([1e6]), 8, machine("L40S")).assumed[0]


def test_a_switch_that_adds_halves_the_traffic() -> None:
    """Eight H200 on NVSwitch pass each byte once (NVLS), four send 2 (n - 1) / n round the ring (8 GiB in distributed_training.csv)."""
    four, eight = (machine("H200-SXM5-141GB").group(n) for n in (4, 8))
    assert form.traffic("all_reduce", "ring", four.members, 1) == 1.5 and form.traffic("all_reduce", "nvls", eight.members, 1) == 1.0
    assert form.traffic("all_reduce", "network", 16, 2) == 1.0  # a tree over two nodes: each sends the sum of its GPUs once


def test_an_unknown_collective_is_refused() -> None:
    with pytest.raises(InputError, match="barrier is not covered"):
        collective_s("barrier", 1e6, 8, machine("H100-SXM5-80GB"))


@given(
    st.sampled_from(form.KINDS),
    st.floats(1.0, 2.0**36),
    st.sampled_from(["A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB", "GB200-186GB", "MI300X", "L40S", "H20-SXM5-96GB"]),
    st.sampled_from([2, 4, 8]),
    st.integers(1, 6),
    st.booleans(),
)
def test_more_nodes_over_a_slower_network_are_never_faster(
    kind: str, size: float, name: str, each: int, doublings: int, graph: bool
) -> None:
    """All GPUs of N nodes against those of 2 N, and of one; 1 GiB of all-to-all over 16 H100 took less than over 8, and over 2 GB200
    domains less than inside one."""
    system = systems.cluster(devices.load(name), each, 12.5e9)
    nodes = 2**doublings
    if kind == "send_recv":
        times = [collective_s(kind, size, 2, system, stride, graph) for stride in (1, each)]
    else:
        times = [collective_s(kind, size, each * n, system, graph=graph) for n in (1, nodes, 2 * nodes)]
    assert times == sorted(times)
    assert collective_s(kind, size, 2 * each, system, graph=graph) >= collective_s(kind, size, each, system, graph=graph)


@pytest.mark.parametrize(("name", "each"), [("GB200-186GB", 72), ("GB300-279GB", 72), ("H100-SXM5-80GB", 8), ("MI300X", 8)])
@pytest.mark.parametrize("kind", [kind for kind in form.KINDS if kind != "send_recv"])
def test_two_usual_nodes_are_never_faster_than_one(name: str, each: int, kind: str) -> None:
    sizes = 2.0 ** np.arange(0, 37)
    one, two, three = (collective_time(kind, sizes, n * each, machine(name), graph=False).seconds for n in (1, 2, 3))
    assert (one <= two).all() and (two <= three).all()


def test_an_all_to_all_over_a_network_goes_through_each_gpu_s_adapter() -> None:
    """16 H100 on two nodes, 1 GiB each: half of it leaves the node through an adapter of 50 GB/s: 10.7 ms at least (2.4 ms was said)."""
    seconds = collective_s("all_to_all", 2.0**30, 16, systems.load("HGX-H100"), graph=False)
    assert seconds >= 0.5 * 2**30 / 50e9 and seconds == pytest.approx(0.5 * 2**30 / 50e9, rel=0.5)


@pytest.mark.parametrize(
    ("name", "members", "pair"),
    [("MI300X", 8, 64e9), ("Gaudi2", 8, 37.5e9), ("MI300X", 16, 50e9), ("H100-SXM5-80GB", 16, 50e9), ("TPU-v4", 64, 50e9)],
)
def test_who_sends_to_the_next_has_one_pair_s_link_or_one_adapter(name: str, members: int, pair: float) -> None:
    """Each of n sends to its neighbour: one of a mesh's seven links (MI300X: 64 GB/s, was answered 287), over nodes one adapter (249)."""
    seconds = collective_s("send_recv", 2.0**30, members, machine(name), graph=False)
    assert 2.0**30 / pair <= 1.01 * seconds <= 2.5 * 2.0**30 / pair
    gaudi = systems.cluster(devices.load("Gaudi2"), 8, 37.5e9)
    assert collective_s("all_to_all", 2.0**30, 16, gaudi, graph=False) >= 0.5 * 2**30 / 37.5e9


def test_an_all_to_all_on_a_torus_is_bound_by_its_middle() -> None:
    """TPU v5e: 16 x 16 closed, four links of 50 GB/s: a message's 16 / 8 cross each link of the cut (the scaling book, sharding.md:
    an all-to-all takes a quarter of an all-gather of the same whole array round the same ring)."""
    v5e = machine("TPU-v5e")
    link = v5e.levels[0].bandwidth_bytes_per_s / 4
    got = collective_s("all_to_all", 2.0**30, 256, v5e)
    assert got == pytest.approx(16 / 8 * 2**30 / link, rel=0.01)
    assert collective_s("all_to_all", 2.0**30, 64, v5e) == pytest.approx(8 / 4 * 2**30 / link, rel=0.01)  # 8 x 8, open


@pytest.mark.parametrize("name", ["A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB"])
@pytest.mark.parametrize("members", [2, 4, 8])
def test_engines_all_reduce_small_messages_by_their_own_kernels(name: str, members: int) -> None:
    """With an architecture hidden, 8 KB to 4 MB take 0.6 to 1.7 times what its engines' kernels were timed at; by NCCL up to 4 times."""
    device = devices.load(name)
    size = np.geomspace(8e3, 4e6, 9)
    timed = collective_time("all_reduce", size, members, systems.of_device(device), implementations=("custom",)).seconds
    hidden = {
        way: collective_time("all_reduce", size, members, systems.of_device(device), implementations=way, hide=device.architecture).seconds
        for way in (("custom", "nccl"), ("nccl",))
    }
    ratio = hidden["custom", "nccl"] / timed
    assert ratio.min() > 0.6 and ratio.max() < 1.7 and (hidden["custom", "nccl"] <= hidden["nccl",]).all()


def test_traffic_and_protocols_by_hand() -> None:
    """nccl-tests' doc/PERFORMANCE.md: 2 (n - 1) / n for a ring's all-reduce, (n - 1) / n for gathers, 1 for a broadcast; a switch that adds
    1; over N nodes 2 (N - 1) / N. Simple: T + 2 sqrt(c T) + c; LL128 on NVLink T 128 / 120 + sqrt(c T); LL 2 T: the fastest."""
    ways = [
        ("all_reduce", "ring"),
        ("all_reduce", "pcie"),
        ("all_reduce", "nvls"),
        ("all_reduce", "network"),
        ("all_gather", "ring"),
        ("all_gather", "network"),
    ]
    assert [form.traffic(kind, way, 7, 3) for kind, way in ways] == [12 / 7, 12 / 7, 1.0, 4 / 3, 6 / 7, 6 / 7]
    assert [form.traffic(kind, "network", 7, 3) for kind in ("all_to_all", "broadcast", "reduce", "send_recv", "reduce_scatter")] == [
        2 / 3,
        1,
        1,
        1,
        6 / 7,
    ]
    assert form.traffic("all_to_all", "ring", 7, 3) == 6 / 7
    for transfer, line, said in (
        (1e-3, True, (1e-3, 2e-5 * 10**1.5 * 10**-0.5 + 1e-5)),
        (1e-7, True, (2e-7, 0.0)),
        (1e-7, False, (2e-7, 0.0)),
    ):
        whole, moved, fill = form.protocols(3e-6, np.array([transfer]), 1e-5, np.array([line]))
        choices = [(transfer, 2 * np.sqrt(1e-5 * transfer) + 1e-5), (2 * transfer, 0.0)]
        choices += [(transfer * 128 / 120, np.sqrt(1e-5 * transfer))] if line else []
        best = min(choices, key=sum)
        assert (moved[0], fill[0]) == pytest.approx(best) and whole[0] == pytest.approx(3e-6 + sum(best)) and said[0] <= 2 * moved[0]


def test_times_of_every_way() -> None:
    """Terms, times and doubts of each kind on each kind of machine, in a graph and not, apart and together, with engines' own kernels,
    and with an architecture hidden."""
    found: dict[str, object] = {}
    sizes = np.array([1.0, 70_001.0, 8 * 2.0**20, 8 * 2.0**20 + 1, 7e8])
    for name in DEVICES:
        for kind in form.KINDS:
            for members, stride in ((2, 1), (8, 1), (16, 1), (4, 8), (6, 2)):
                if kind not in ("all_reduce", "all_to_all", "broadcast") and (members, stride) != (8, 1):
                    continue
                for graph in (True, False):
                    t = terms(kind, members, machine(name), stride, graph)
                    got = collective_time(kind, sizes, members, machine(name), stride, graph)
                    found[f"{name} {kind} {members} {stride} {graph}"] = [
                        [t.floor_s, t.byte_s, t.chunk_s, t.line, t.floor_sd, t.efficiency_sd, t.chunk_sd, t.rest_sd, t.basis, t.assumed],
                        got.seconds,
                        got.log_sd,
                        got.basis,
                        got.assumed,
                        {part: [share[1], sd] for part, (share, sd) in got.parts.items()},
                    ]
        for hide in ("", "hopper"):
            got = collective_time("all_reduce", sizes, 8, machine(name), 1, True, ("vllm", "custom", "nccl"), hide)
            found[f"{name} engine {hide}"] = [got.seconds, got.log_sd, got.basis, got.assumed]
    got = collective_time("all_reduce", sizes, 1, machine("L40S"))
    found["alone"] = [got.seconds, got.log_sd, got.basis, [custom_kernels(hide) for hide in ("", "hopper")]]
    kept("collective_times", found)
