"""The committed kernel models against laws and against the committed sample of measured rows."""

import numpy as np
import pytest

from analysis.kernels import gpus, laws, physics, trees, work
from analysis.kernels.library import KernelLibrary
from analysis.paths import DATA
from analysis.studies.kernels import evaluate, forests, law_fits, splits
from analysis.studies.kernels.samples import recompute
from analysis.tables import read_csv
from tests.golden import kept

LIBRARY = KernelLibrary.load()
RNG = np.random.default_rng(0)
SHAPES = [np.round(2.0 ** RNG.uniform(low, high, 400)) for low, high in ((0, 13), (7, 14), (7, 14))]


@pytest.mark.parametrize("device", ["a100_sxm", "l40s", "h100_sxm", "b200_sxm", "rtx_pro_6000_server"])
@pytest.mark.parametrize("hide", ["none", "architecture"])
def test_nothing_beats_the_data_sheet(device, hide):
    """A GEMM takes at least its FLOP at the data sheet's rate; 5 % for the clock above the sheet's (RTX PRO 6000: 2430 for 2340 MHz)."""
    kernels = LIBRARY.on(device, hide=hide)
    done = work.gemm(*SHAPES, "bf16")
    assert (kernels.gemm(*SHAPES, "bf16").s > 0.95 * done.flop / kernels.gpu.peak_flop_per_s["bf16"]).all()


@pytest.mark.parametrize("device", ["h100_sxm"])
def test_doubling_a_gemm_hardly_ever_makes_it_faster(device):
    """None by more than 5 %. Of the pairs that vLLM measured, 1.5 % of doublings are, and 5 % are faster with sixteen times the rows."""
    kernels = LIBRARY.on(device)
    base = kernels.gemm(*SHAPES, "bf16").s
    for axis in range(3):
        twice = kernels.gemm(*[2 * v if i == axis else v for i, v in enumerate(SHAPES)], "bf16").s
        assert (twice >= 0.95 * base).all()
        four = kernels.gemm(*[16 * v if i == axis else v for i, v in enumerate(SHAPES)], "bf16").s
        assert (four >= 0.95 * base).all() and np.mean(four < base) <= 0.04


def test_the_answer_says_which_setting_it_is():
    assert LIBRARY.on("h100_sxm").gemm(64, 4096, 4096, "bf16").source == "measured gpu"
    assert LIBRARY.on("h100_sxm", hide="architecture").gemm(64, 4096, 4096, "bf16").source == "unmeasured gpu"
    assert LIBRARY.on("H20").gemm(64, 4096, 4096, "fp8").source == "unmeasured gpu"
    assert LIBRARY.on("MI300X").gemm(64, 4096, 4096, "bf16").source == "data sheet"


def test_a_hidden_gpu_is_answered_by_its_sibling():
    """H200 hidden is H100's forests on H200's data sheet; A100, alone in its architecture, is answered as if all of it were hidden."""
    own, sibling = LIBRARY.on("h200_sxm").gemm(*SHAPES, "bf16"), LIBRARY.on("h200_sxm", hide="device").gemm(*SHAPES, "bf16")
    assert sibling.source == "unmeasured gpu" and (sibling.log_sd > 0.1).all()
    assert np.median(np.abs(sibling.s / own.s - 1)) < 0.08
    alone = [LIBRARY.on("a100_sxm", hide=hide).gemm(*SHAPES, "bf16").s for hide in ("device", "architecture")]
    assert (alone[0] == alone[1]).all()
    assert [name for _, name in gpus.siblings(gpus.load("H800"))] and not gpus.siblings(gpus.load("H20"))


def test_the_law_of_a_cell_is_found_again():
    """Oracle: times made by the law itself with known parameters, 2 % of noise."""
    parts = np.exp(RNG.uniform(-14, -8, (6, 400)))
    parts[0] = 1e-6
    truth = np.log([5.0, 1.6, 1.2, 0.6, 0.4, 0.7])
    seconds = laws.time_s(parts, truth) * np.exp(RNG.normal(0, 0.02, 400))
    found = law_fits.fit("gemm", parts, seconds)
    assert np.median(np.abs(laws.time_s(parts, found) / laws.time_s(parts, truth) - 1)) < 0.02
    assert (laws.time_s(2 * parts, found) >= laws.time_s(parts, found)).all()


def test_answered_doublings_are_faster_where_measured_ones_are():
    """Source: data/frozen/kernels_today/doublings.csv, pairs of the kernel tables: ours are rarer, and hardly any is ours alone."""
    pairs = read_csv(DATA / "frozen" / "kernels_today" / "doublings.csv")
    share = {name: np.average(pairs[name], weights=pairs["pairs"]) for name in ("measured_faster", "answered_faster", "answered_alone")}
    assert share["answered_faster"] < 0.5 * share["measured_faster"] and share["answered_alone"] < 0.01


def test_times_with_the_launch_by_the_host_are_found_by_rule():
    """Oracle: kernels of 2 and 15 us, and a cell whose every time has 60 us of launch in it."""

    def cell(dtype, seconds):
        sizes = {name: np.full(400, 128.0) for name in "mnk"}
        return splits.Cell("gemm", "h100_sxm", "vllm", "1", dtype, sizes, np.full(400, ""), seconds * np.linspace(1, 100, 400))

    cells = [cell("bf16", 2e-6), cell("int8_wo", 15e-6), cell("fp8_block", 60e-6)]
    assert evaluate.timed_with_host(cells) == {"h100_sxm/vllm/fp8_block"}


def test_hidden_types_are_refused():
    """Weight-only int4 was measured on one architecture: with it left out nothing is known."""
    assert np.isnan(LIBRARY.on("a100_sxm", hide="architecture").gemm(64, 4096, 4096, "int4").s)


def test_committed_sample_is_answered_as_frozen():
    """Source: data/frozen/kernels_today/sample.csv, rows of aiconfigurator-core 0.12.0 (Apache-2.0)."""
    path = DATA / "frozen" / "kernels_today" / "sample.csv"
    if not path.is_file():
        pytest.skip("the sample is drawn from the wheel: run `make data`, then python -m analysis.studies.kernels.samples")
    sample = recompute(read_csv(path))
    assert np.allclose(sample["latency_ms_now"], sample["predicted_ms"], rtol=1e-4)
    error = np.abs(sample["latency_ms_now"] / sample["measured_ms"] - 1)
    assert error.groupby(sample["operator"]).median().max() < 0.12


@pytest.mark.parametrize("leaves", (8, 64))
def test_forest_as_arrays_equals_scikit_learn(leaves):
    """Oracle: scikit-learn's own prediction of the same forest."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    values = RNG.integers(-3000, 3000, (3000, 4)).astype(np.int16)
    target = np.sin(values[:, 0] / 700) + (values[:, 1] > 50) * 0.3
    model = HistGradientBoostingRegressor(
        max_iter=20, max_leaf_nodes=leaves, learning_rate=0.2, l2_regularization=1.0, early_stopping=False, random_state=0
    )
    expected = model.fit(values.astype(np.float32), target).predict(values.astype(np.float32))
    forest = forests.fit(values, target, 20, leaves, 0.2)
    assert np.diff(forest.start).max() == 2 * leaves - 1
    assert np.allclose(trees.predict(forest, values), expected, atol=20 / 8192)
    sums = [np.zeros(3000, dtype=np.int64), np.zeros(3000, dtype=np.int64)]
    for sum_up, out in zip((trees._sum, trees._sum_in_numpy), sums, strict=True):
        sum_up(np.ascontiguousarray(values.T), *forest[:4], out)
    assert (sums[0] == sums[1]).all() and len(set(sums[0])) > 50


def test_a_tree_of_too_many_leaves_is_refused():
    nodes = np.arange(2 * 65 - 1)  # each inner node's left child is a leaf
    feature = np.where((nodes % 2 == 1) | (nodes == nodes[-1]), trees.LEAF, 0).astype(np.uint8)
    right = np.where(nodes % 2 == 0, 2, 0).astype(np.uint8)
    with pytest.raises(ValueError, match="more than 64 leaves"):
        trees._sum(np.zeros((1, 3), np.int16), feature, np.zeros(len(nodes), np.int16), right, np.zeros(1, np.int32), np.zeros(3, np.int64))


def test_causal_pairs():
    """Counted by hand: two new tokens after three see 4 and 5 keys; a window of 2 lets each see 2."""
    assert work.causal_pairs(2, 5) == 9
    assert work.causal_pairs(2, 5, window=2) == 4
    assert work.causal_pairs(4, 4, window=2) == 1 + 2 + 2 + 2
    assert work.causal_pairs(4, 4) == 10


def test_held_out_shapes_are_the_same_everywhere():
    """The bucket depends on the sizes alone, and about one shape in ten is a test."""
    sizes = {"m": np.arange(1.0, 5001), "n": np.full(5000, 4096.0), "k": np.full(5000, 128.0)}
    first = splits.bucket(sizes)
    assert (first == splits.bucket({k: v.copy() for k, v in sizes.items()})).all()
    assert 0.08 < np.mean(first == 0) < 0.12


def test_every_table_of_the_wheel_is_accounted_for():
    """736 tables and 12,586,413 rows (shared record of the kernel tables), two of them copies of H100's."""
    tables = read_csv(DATA / "frozen" / "kernels_today" / "tables.csv")
    assert len(tables) == 736 and tables["rows"].sum() == 12_586_413
    copied = tables[tables["kind"] == "copied"]
    assert set(copied["system"]) == {"h200_sxm"} and set(copied["same_as"]) == {"h100_sxm"} and len(copied) == 2
    assert set(tables["kind"]) <= {"measured", "copied", "placeholder", "empty", "unreadable"}


def test_a_collective_of_one_gpu_is_free_and_more_bytes_take_longer():
    kernels = LIBRARY.on("h100_sxm")
    assert kernels.collective("all_reduce", 1e6, 1).s == 0
    size = 2.0 ** np.arange(0, 34)
    for kind in ("all_reduce", "all_gather", "all_to_all"):
        assert (np.diff(kernels.collective(kind, size, 8).s) >= 0).all()


@pytest.mark.parametrize(("device", "framework", "microseconds"), [
    ("b200_sxm", None, 7.427), ("b200_sxm", "sglang", 8.633), ("b200_sxm", "trtllm", 5.918), ("b200_sxm", "vllm", 5.918),
    ("h100_sxm", "vllm", None), ("h100_sxm", "sglang", None),
])  # fmt: skip
def test_an_all_reduce_is_the_frameworks_own_and_vllms_on_blackwell_tensorrt_llms(device, framework, microseconds):
    """65,536 bytes over 8 GPUs, medians of the wheel's tables (data/models/gpu_kernels/collectives.csv); vLLM's design/fusions page."""
    table = read_csv(DATA / "models" / "gpu_kernels" / "collectives.csv").fillna({"framework": ""})
    row = table[
        (table["system"] == device) & (table["devices"] == 8) & (table["bytes"] == 65536) & (table["framework"] == (framework or ""))
    ]
    expected = microseconds or float(row.loc[row["implementation"] == "custom", "latency_us"].iloc[0])
    assert LIBRARY.on(device, framework=framework).collective("all_reduce", 65536, 8, "custom").s == pytest.approx(
        1e-6 * expected, rel=0.02
    )


def test_a_pooled_forest_answers_with_the_family_that_is_called():
    """Oracle: two leaves by hand, split on the mark of one family."""
    got = physics.Features(np.full(3, 1e-5), np.zeros((3, 2), dtype=np.int16), np.empty((0, 3)))
    column = 2 + physics.FAMILIES.index("triton")
    forest = trees.Forest(
        np.array([column, 255, 255], dtype=np.uint8), np.array([512, 8192, -8192], dtype=np.int16), np.array([2, 0, 0], dtype=np.uint8),
        np.array([0], dtype=np.int32), 0.5,
    )  # fmt: skip
    gpu = gpus.load("h100_sxm")
    for name, expected in (("triton", -0.5), ("flashinfer", 1.5)):
        assert laws.answer("attention_decode", got, forest, gpu, name) == pytest.approx(expected)


def test_an_architecture_that_was_not_timed_calls_what_the_documentation_says():
    """Source: the pages whose addresses stand in `attention_backends.yaml`; no table of timings is asked."""
    documented = {
        ("vllm", "hopper", "bf16/bf16"): "flash_attention_3",
        ("vllm", "hopper", "bf16/fp8"): "flash_attention_3",
        ("vllm", "blackwell", "bf16/bf16"): "trtllm_gen",
        ("vllm", "ampere", "bf16/bf16"): "flash_attention_2",
        ("vllm", "ada", "bf16/fp8"): "flashinfer",  # FlashAttention 2 reads no fp8 cache
        ("vllm", "blackwell workstation", "bf16/fp8"): "triton",
        ("vllm", "turing", "bf16/bf16"): "flashinfer",
        ("vllm", "unheard of", "bf16/bf16"): "triton",
        ("sglang", "hopper", "fp8/fp8"): "flash_attention_3",
        ("sglang", "blackwell workstation", "bf16/bf16"): "flashinfer",
        ("trtllm", "ada", "bf16/bf16"): "trtllm",
    }
    assert {key: laws.called("attention_decode", *key) for key in documented} == documented
    assert laws.called("latent_decode", "vllm", "hopper", "bf16/bf16") == ""
    every = {r.family for name in physics.FRAMEWORKS for r in getattr(laws._backends(), name).rules}
    assert every == set(physics.FAMILIES)


def test_kernels_of_attention_are_told_by_their_names():
    """Source: names in the kernel tables of aiconfigurator-core 0.12.0, and what FlashAttention and FlashInfer call their kernels."""
    named = {
        ("vllm", "vllm_flash_attn_fa2", "ada"): "flash_attention_2",
        ("vllm", "vllm_flash_attn_fa4", "hopper"): "flash_attention_3",
        ("sglang", "fa3", "hopper"): "flash_attention_3",
        ("sglang", "trtllm_mha", "blackwell"): "trtllm_gen",
        ("trtllm", "torch_flow", "hopper"): "trtllm",
        ("trtllm", "torch_flow_flashinfer", "blackwell"): "flashinfer",
        ("vllm", "vllm_triton_attn", "ada"): "triton",
    }
    assert {key: splits.family(*key) for key in named} == named
    assert set(named.values()) == set(physics.FAMILIES)


def test_what_blackwell_documents_holds_with_its_tables_hidden():
    """DeepGEMM is DeepGEMM in both frameworks, and block scales cost its matrix unit nothing: addresses in `physics`."""
    deep, same = (LIBRARY.on("b200_sxm", framework=f, hide="architecture").gemm(*SHAPES, "fp8_block").s for f in ("sglang", "trtllm"))
    assert (deep == same).all()
    for system, plain in (("b200_sxm", "fp8"), ("h200_sxm", "fp8_block")):
        columns = laws.describe(gpus.load(system), "sglang", "fp8_block", "", laws.ARITHMETIC)
        assert f"type={plain}" in columns and f"cell sglang/{plain}/" in columns
    assert "type=fp8_block" in laws.describe(gpus.load("b200_sxm"), "sglang", "fp8_block", "", laws.ARITHMETIC + 1)
    assert gpus.load("b200_sxm").clock_hz == pytest.approx(2250e12 / 148 / 8192) and gpus.load("a100_sxm").clock_hz == 1.41e9


def drawn(tokens: int, experts: int, top_k: int, ranks: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of the busiest rank's experts, one draw as `power_law_logits_v3` has it (address in `work.loads`), alpha 1.01."""
    low, high = (1, 0.8 * tokens) if tokens * top_k > experts else (0.01, 2)
    x = ((high**-0.01 - low**-0.01) * rng.random(experts) + low**-0.01) ** (1 / -0.01)
    rows = np.minimum(np.round(x / x.sum() * tokens * top_k), tokens)
    for _ in range(int(tokens * top_k - rows.sum())):
        rows[np.argmin(rows)] += 1
    by_rank = rows.reshape(ranks, -1)
    return by_rank[by_rank.sum(axis=1).argmax()]


@pytest.mark.parametrize(("tokens", "experts", "top_k", "ranks"), [(512, 128, 8, 1), (4096, 128, 8, 8), (2048, 64, 6, 4), (4, 256, 8, 1)])
def test_experts_get_the_rows_that_the_documented_draws_give_them(tokens, experts, top_k, ranks):
    rng = np.random.default_rng(1)
    many = [drawn(tokens, experts, top_k, ranks, rng) for _ in range(40)]
    got = work.loads([tokens], [experts], [top_k], [ranks], "power_law_1.01")
    assert got.pairs[0] == pytest.approx(np.mean([rows.sum() for rows in many]), rel=0.1)
    assert got.active[0] == pytest.approx(np.mean([(rows > 0).sum() for rows in many]), rel=0.15)
    assert got.tiles[2, 0] == pytest.approx(np.mean([np.ceil(rows / 64).sum() for rows in many]), rel=0.15)


@pytest.mark.parametrize(("tokens", "experts", "top_k", "ranks"), [(1, 128, 8, 1), (64, 64, 4, 2), (512, 128, 8, 128), (64, 10**6, 8, 4)])
def test_balanced_experts_share_all_choices_alike(tokens, experts, top_k, ranks):
    plain, got = (work.loads([tokens], [experts], [top_k], [ranks], "balanced", crowded) for crowded in (False, True))
    assert plain.pairs[0] == pytest.approx(tokens * top_k / ranks)
    assert got.active[0] == pytest.approx(min(experts, tokens * top_k) / ranks)
    assert got.tokens[0] <= tokens and (got.pairs[0] > plain.pairs[0]) == (ranks > 1)


def test_a_launch_takes_cycles_where_an_answer_is_carried_to_another_gpu():
    """A100 runs at 1,410 MHz (its white paper): 1.9 GHz's launch takes it 1.35 times as long; forests of one GPU know seconds."""
    a100, levels = gpus.load("a100_sxm"), physics.Sustained({("bf16", True): 0.0})
    seconds, cycles = (physics.gemm(1, 64, 64, "bf16", "vllm", a100, s).parts[0] for s in (levels, physics.carried("gemm", levels)))
    assert seconds[0] == 1e-6 and cycles[0] == pytest.approx(1e-6 * 1.9e9 / 1.41e9)
    assert not physics.carried("latent_prefill", levels).cycles


def test_work_of_a_kernel_by_hand():
    """Multiply-adds are two operations; each operand moves once: (7, 11) x (11, 5) in bf16, FP8 and with 4-bit weights; two sequences of
    three queries over five keys, 6 query and 2 KV heads of 13; a token over 19 keys of which a window of 17 is seen; DeepSeek's latent
    attention (512 + 64 cached, 192 + 128 a head)."""
    assert [work.gemm(7, 5, 11, kind) for kind in ("bf16", "fp8", "int4_wo")] == [
        (770, 2 * 77 + 2 * 55 + 2 * 35),
        (770, 77 + 55 + 2 * 35),
        (770, 2 * 77 + 0.5 * 55 + 2 * 35),
    ]
    pairs = 3 + 4 + 5
    assert work.causal_pairs(3, 5) == pairs and work.causal_pairs(3, 5, causal=False) == 15
    assert [float(work.causal_pairs(3, 5, w)) for w in (1, 2, 3, 4, 5, 9)] == [3, 6, 9, 11, 12, 12]
    assert work.attention_prefill(2, 6, 2, 13, 11, 3, 5, 1.0) == (2 * 2 * 6 * 24 * pairs, 2 * (2 * 3 * 6 * 24 + 5 * 2 * 24))
    assert work.attention_decode(2, 6, 2, 13, 19, 2.0) == (4 * 2 * 6 * 13 * 19, 2 * (4 * 6 * 13 + 2 * 2 * 19 * 2 * 13))
    assert work.attention_decode(2, 6, 2, 13, 19, 2.0, 17).flop == 4 * 2 * 6 * 13 * 17
    assert work.latent_prefill(2, 7, 3, 5, 2.0) == (2 * 2 * 7 * 320 * pairs, 2 * 2 * 7 * 320 * 8)
    assert work.latent_decode(2, 7, 19, 1.0) == (2 * 2 * 7 * 19 * 1088, 2 * (19 * 576 + 2 * 7 * 1088))
    routed = work.moe(40, 16, 3, 101, 24, "fp8", 2, 4)  # 30 pairs on 4 experts of 12 wide, of which 4 (1 - (13 / 16)^40) have a row
    active = 4 * (1 - (13 / 16) ** 40)
    assert (routed.pairs, routed.local, routed.active) == (30, 4, pytest.approx(active)) and routed.rows == pytest.approx(30 / active)
    assert routed.work.flop == 2 * 30 * 101 * 12 * 3
    assert routed.work.bytes == pytest.approx(active * 101 * 12 * 3 + 30 * (101 + 12) + 2 * 30 * (101 + 24))


def test_first_times_of_every_kernel():
    """Base time, parts and features of each kind of kernel on each kind of card, by levels of our own: what `physics` documents."""
    plain = physics.Sustained(
        {("bf16", False): -0.31, ("bf16", True): -0.47, ("fp8", False): -0.53, ("fp8", True): -0.59, ("int8", True): -0.7}
    )
    sizes = (np.array([1.0, 130, 4099]), np.array([97.0, 1031, 8209]), np.array([257.0, 1543, 5003]))
    found = {}
    for card in ("a100_sxm", "l40s", "h100_sxm", "b200_sxm", "MI300X"):
        gpu = gpus.load(card)
        for sustained in (plain, plain._replace(cycles=True)):
            calls = {
                f"gemm {kind} {framework}": physics.gemm(*sizes, kind, framework, gpu, sustained)
                for kind, framework in (("bf16", "vllm"), ("fp8_block", "trtllm"), ("int8", "sglang"))
                if kind in gpu.peak_flop_per_s
            }
            many = (np.array([1.0, 3, 17]), 24.0, np.array([24.0, 3, 6]), 61.0)
            for kv in ("bf16", "fp8"):
                calls[f"prompts {kv}"] = physics.attention_prefill(
                    *many, 53.0, np.array([1.0, 700, 65]), 701.0, np.array([0.0, 0, 60]), "bf16", kv, "vllm", gpu, sustained
                )
                calls[f"decode {kv}"] = physics.attention_decode(
                    *many, np.array([5.0, 7001, 900]), np.array([0.0, 0, 128]), "bf16", kv, "sglang", gpu, sustained
                )
            calls["latent prompts"] = physics.attention_prefill(
                2.0, 20.0, 20.0, 192.0, 128.0, 333.0, 1001.0, 0.0, "bf16", "bf16", "vllm", gpu, sustained, latent=True
            )
            calls["latent decode"] = physics.attention_decode(
                9.0, 80.0, 80.0, 576.0, 3001.0, 0.0, "bf16", "fp8", "trtllm", gpu, sustained, latent=True
            )
            for kind, framework, distribution in (
                ("bf16", "sglang", "balanced"),
                ("fp8", "vllm", "power_law_1.2"),
                ("int4_wo", "vllm", "power_law_1.01"),
            ):
                if kind in gpu.peak_flop_per_s:
                    calls[f"experts {kind} {framework}"] = physics.moe(
                        np.array([3.0, 501]),
                        48.0,
                        5.0,
                        1531.0,
                        386.0,
                        2.0,
                        np.array([1.0, 4]),
                        kind,
                        distribution,
                        framework,
                        gpu,
                        sustained,
                    )
            for name, got in calls.items():
                found[f"{card} {name}{' in cycles' if sustained.cycles else ''}"] = [
                    got.base_s,
                    got.parts,
                    (got.values.astype(int) * np.arange(1, got.values.shape[1] + 1)).sum(axis=1),
                    got.values[-1],
                ]
        sheet = "name system architecture peak_flop_per_s bandwidth_bytes_per_s l2_bytes sms tdp_w node vendor clock_hz"
        found[f"{card} sheet"] = [
            {name: getattr(gpu, name) for name in sheet.split()},
            [physics.cache_bandwidth(gpu), plain.tick(gpu), plain._replace(cycles=True).tick(gpu)],
            {kind: [plain.share(gpu, kind), plain.transferred(gpu, kind)] for kind in gpu.peak_flop_per_s},
            physics.memory_time(np.array([1e3, 1e6, 1.7e7, 1e9]), gpu),
            gpus.siblings(gpu),
        ]
    kept("first_times", found)


def test_answers_of_every_kernel():
    """Time, doubt, source and refusal of each call on timed cards, with them hidden, and on cards that were never timed."""
    found = {}
    for card, hide in [
        *((card, hide) for card in ("h100_sxm", "a100_sxm", "b200_sxm") for hide in ("none", "device", "architecture")),
        *((card, "none") for card in ("H20", "L4", "V100-SXM2-32GB", "MI300X", "Gaudi3", "RTX-4090", "rtx_pro_6000_server")),
    ]:
        for framework in (None, "sglang") if hide == "none" else (None,):
            k = LIBRARY.on(card, framework, hide=hide)
            m = np.array([1.0, 333, 0, 1e9])
            calls = {f"gemm {kind}": k.gemm(m, 4099, 2053, kind) for kind in ("bf16", "fp8_block", "int4", "fp6")}
            calls["prompts"] = k.attention_prefill(
                np.array([1, 5]), 24, 3, 128, np.array([77, 501]), 501, "bf16", window=np.array([0, 100])
            )
            calls["decode"] = k.attention_decode(
                np.array([1, 63]), 24, 3, 128, np.array([9001, 501]), "bf16", "fp8", window=np.array([0, 100])
            )
            calls["int8 cache"] = k.attention_decode(1, 24, 3, 128, 9, "bf16", "int8")
            calls["latent"], calls["latent prompts"] = (
                k.latent_attention_decode(7, 20, 1501, "bf16"),
                k.latent_attention_prefill(2, 20, 77, 501, "bf16", "fp8"),
            )
            calls["experts"], calls["drawn"] = (
                k.moe(np.array([3, 501]), 48, 5, 1536, 384, "bf16", 2, 4),
                k.moe(64, 48, 5, 1536, 384, "fp8", distribution="balanced"),
            )
            calls["other draws"], calls["other experts"] = (
                k.moe(1, 2, 1, 64, 64, "bf16", distribution="uniform"),
                k.moe(1, 2, 1, 64, 64, "int8"),
            )
            calls["memory"] = k.memory_bound(np.array([0.0, 1e5, 1.3e9, -1]))
            calls["all"] = k.collective("all_reduce", np.array([0.0, 70001, 7e7, -1]), np.array([1, 8, 16, 8]), "custom")
            calls["odd"], calls["odder"] = k.collective("shout", 1, 2), k.collective("all_reduce", 1, 2, "mpi")
            found[f"{card} {framework} {hide}"] = {
                name: [got.s, got.log_sd, got.source, got.status, got.note] for name, got in calls.items()
            } | {
                "versions": [
                    k.timed_version("gemm", "bf16"),
                    k.timed_version("moe", "nvfp4"),
                    k.measured_by("gemm", "fp8"),
                    k.measured_by("moe", "mxfp4"),
                ]
            }
    kept("kernels", found)


def test_laws_of_carried_times_by_hand():
    """t = launch + (arithmetic^4 + memory^4 + chain^4)^(1/4) + passes, each times exp(theta)."""
    parts, theta = np.array([[2.0], [3.0], [5.0], [7.0], [11.0], [13.0]]), np.log(np.array([1.1, 0.9, 1.3, 0.7, 0.5, 2.0]))
    scaled = [2 * 1.1, 3 * 0.9, 5 * 1.3, 7 * 0.7, 11 * 0.5, 13 * 2.0]
    assert laws.time_s(parts, theta)[0] == pytest.approx(scaled[0] + sum(x**4 for x in scaled[1:4]) ** 0.25 + scaled[4] + scaled[5])
    got = laws.widen(physics.Features(np.ones(1), np.zeros((1, 2), dtype=np.int16), parts), theta)
    base = laws.time_s(parts, theta)[0]
    assert got.base_s[0] == base and got.values[0].tolist() == [
        0,
        0,
        *(round(1024 * float(np.log(x / base))) for x in scaled),
        round(1024 * float(np.log(base / 2))),
    ]
    described = {
        f"{card} {cell}": laws.describe(gpus.load(card), *cell)
        for card in ("a100_sxm", "b200_sxm", "l40s", "h100_sxm")
        for cell in (
            ("vllm", "bf16", "", 1),
            ("trtllm", "fp8_block", "", 1),
            ("trtllm", "fp8_block", "", 2),
            ("sglang", "", "fp8/bf16", 0),
            ("sglang", "nvfp4", "balanced", 3),
        )
    }
    described["used"] = [
        laws.used(*given) for given in (("gemm", "x", ()), ("moe", "x", ("x",)), ("moe", "x", ("y",)), ("attention_decode", "x", ()))
    ]  # type: ignore[assignment]
    kept("laws", described)
