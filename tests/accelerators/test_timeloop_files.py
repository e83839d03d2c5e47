"""Timeloop's own files against ours: the same design, layer and mapping give the same answer; what is not modelled is refused by name."""

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from analysis.__main__ import main as command
from analysis.accelerators.loopnest.architecture import Architecture, Level, read_architecture
from analysis.accelerators.loopnest.evaluation import evaluate
from analysis.accelerators.loopnest.mapping import Loop, Mapping, read_mapping
from analysis.accelerators.loopnest.problem import convolution
from analysis.accelerators.mapper.best_mapping import best_mapping
from analysis.accelerators.timeloop.architecture import energy_table, read_design
from analysis.accelerators.timeloop.files import read_constrained, read_mapped, read_problem
from analysis.accelerators.timeloop.yaml_tree import File, is_native, split_name
from analysis.errors import InputError
from analysis.paths import DATA, EXAMPLES
from analysis.progress import Progress

RECORDED = DATA / "recorded" / "timeloop"
FILES = Path(__file__).parent / "files"
V03, V04 = FILES / "timeloop_eyeriss_v03.yaml", FILES / "timeloop_eyeriss_v04.yaml"
ERT, LAYER, MAPPING = (FILES / f"timeloop_{name}.yaml" for name in ("eyeriss_ert", "reference_layer", "reference_mapping"))
OURS = "{N: 1, C: 3, M: 32, P: 112, Q: 112, R: 3, S: 3, stride: 2}\n"


def written(folder: Path, text: str, name: str = "input.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("design", [V03, V04])
def test_the_recorded_design_reads_the_same_in_every_format(design):
    # data/recorded/timeloop/architecture.yaml; the public eyeriss_like example lists the same sizes, bandwidths and energies.
    ours = read_architecture(RECORDED / "architecture.yaml")
    _, theirs = read_constrained(design, LAYER, ert=ERT)
    stored = [level for level in theirs.levels if level.keeps]
    expected = [level for level in ours.levels if level.keeps]
    assert [replace(level, keeps=tuple(sorted(level.keeps))) for level in stored] == [
        replace(level, keeps=tuple(sorted(level.keeps))) for level in expected
    ]
    assert [level.fanout for level in theirs.levels] == [level.fanout for level in ours.levels]
    assert (theirs.mac_count, theirs.mac_energy_j, theirs.cycle_s) == (ours.mac_count, ours.mac_energy_j, ours.cycle_s)


def test_the_command_answers_the_same_from_timeloops_files_as_from_ours(tmp_path):
    layer = written(tmp_path, OURS)
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    recorded = ["--arch", str(RECORDED / "architecture.yaml"), "--layer", str(layer), "--mapping", str(RECORDED / "mappings/refmodel.yaml")]
    native = ["--arch", str(V03), "--ert", str(ERT), "--layer", str(LAYER), "--mapping", str(MAPPING)]
    assert command(["loopnest", *recorded, "--out", str(ours)]) == 0
    assert command(["loopnest", *native, "--out", str(theirs)]) == 0
    answer = json.loads(theirs.read_text())
    assert answer == json.loads(ours.read_text())
    # The anchor of the recorded run refmodel (data/recorded/timeloop/access_counts.csv).
    assert answer["cycles"] == 86_016 and answer["utilization"] == pytest.approx(126 / 168)
    counts = {(a["level"], a["dataspace"], a["stat"]): a["value"] for a in answer["accesses"]}
    assert counts["DRAM", "Weights", "Scalar reads (per-instance)"] == 13_824
    assert counts["DRAM", "Inputs", "Scalar reads (per-instance)"] == 156_600


@pytest.mark.parametrize("path", sorted((RECORDED / "mappings").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recorded_mapping_on_the_native_design_counts_the_same(path):
    ours = read_architecture(RECORDED / "architecture.yaml")
    loops = read_mapping(path, ours)
    sizes = dict.fromkeys("NCMPQRS", 1)
    for _, here in loops.loops:
        for loop in here:
            sizes[loop.dimension] *= loop.bound
    problem = convolution(**{d.lower(): n for d, n in sizes.items()})
    for design in (V03, V04):
        _, theirs = read_constrained(design, LAYER, ert=ERT)
        one, other = evaluate(problem, ours, loops), evaluate(problem, theirs, loops)
        assert (one.cycles, one.energy_j, one.accesses) == (other.cycles, other.energy_j, other.accesses)


def test_formats_may_be_mixed(tmp_path):
    layer = written(tmp_path, OURS)
    problem, architecture, loops = read_mapped(V04, layer, RECORDED / "mappings/refmodel.yaml", ert=ERT)
    assert evaluate(problem, architecture, loops).cycles == 86_016
    # Timeloop's mapping on our design: `column` fans out where Timeloop needs a level that stores nothing.
    text = MAPPING.read_text().replace("DummyBuffer", "column")
    problem, architecture, loops = read_mapped(RECORDED / "architecture.yaml", LAYER, written(tmp_path, text, "map.yaml"))
    assert evaluate(problem, architecture, loops).cycles == 86_016


def test_containers_that_fan_out_are_targets_as_timeloop_writes_them(tmp_path):
    # timeloop-mapper.map.yaml names the fan-outs of version 0.4 inter_NAME_spatial and gives both a temporal and a spatial directive.
    text = MAPPING.read_text().replace("target: DummyBuffer", "target: inter_PE_spatial")
    text = text.replace("target: shared_glb, type: spatial", "target: inter_PE_column_spatial, type: spatial")
    text += "  - {target: inter_PE_column_spatial, type: temporal, factors: C1 M1, permutation: CMRSNPQ}\n"
    text += "  - {target: inter_PE_column_spatial, type: datatype, keep: [], bypass: [Weights, Inputs, Outputs]}\n"
    problem, architecture, loops = read_mapped(V04, LAYER, written(tmp_path, text), ert=ERT)
    assert evaluate(problem, architecture, loops).cycles == 86_016


def test_the_form_that_timeloops_front_end_writes(tmp_path):
    # parsed-processed-input.yaml: version 0.4 as one subtree, ranges that start at 1, dummy_storage for each fan-out, attributes repeated.
    part = "{class: smartbuffer_RF, attributes: {datawidth: 8, width: 16, technology: 32nm, meshX: 14, meshY: 12, entries: null, WORD: 8, "
    text = f"""
dumped_by_timeloop_front_end: true
architecture:
  version: '0.4'
  subtree:
  - name: system_top_level
    attributes: {{version: '0.4', technology: 32nm, global_cycle_seconds: 1e-9, WORD: 8, has_power_gating: false, power_gated_at: null}}
    local:
    - {{name: 'DRAM[1..1]', class: DRAM, attributes: {{width: 64, depth: 1, datawidth: 8, cluster_size: 1, meshX: 1, meshY: 1}}}}
    - name: shared_glb[1..1]
      class: smartbuffer_SRAM
      attributes: {{depth: 16384, width: 64, datawidth: 8, read_bandwidth: 16, write_bandwidth: 16, multiple_buffering: 1, meshX: 1}}
    - {{name: 'inter_PE_column_spatial[1..1]', class: dummy_storage, attributes: {{width: 1, depth: 1, datawidth: 1, meshX: 1, meshY: 1}}}}
    - {{name: 'inter_PE_spatial[1..14]', class: dummy_storage, attributes: {{width: 1, depth: 1, datawidth: 1, meshX: 14, meshY: 1}}}}
    - {{name: 'ifmap_spad[1..168]', {part[1:]} depth: 12, read_bandwidth: 2, write_bandwidth: 2}}}}
    - {{name: 'weights_spad[1..168]', {part[1:]} depth: 192, read_bandwidth: 2, write_bandwidth: 2}}}}
    - {{name: 'psum_spad[1..168]', {part[1:].replace("datawidth: 8", "datawidth: 16")} depth: 16, read_bandwidth: 2, write_bandwidth: 2}}}}
    - {{name: 'mac[1..168]', class: intmac, attributes: {{multiplier_width: 8, adder_width: 16, meshX: 14, meshY: 12}}}}
"""
    mapping = MAPPING.read_text().replace("DummyBuffer", "inter_PE_spatial")
    mapping = mapping.replace("shared_glb, type: spatial", "inter_PE_column_spatial, type: spatial")
    mapping += "  - {target: inter_PE_column_spatial, type: datatype, bypass: [Weights, Inputs, Outputs]}\n"
    arch = written(tmp_path, text, "arch.yaml")
    problem, architecture, loops = read_mapped(arch, LAYER, written(tmp_path, mapping, "map.yaml"), ert=ERT)
    found = evaluate(problem, architecture, loops)
    recorded = evaluate(*read_mapped(V03, LAYER, MAPPING, ert=ERT))
    assert (found.cycles, found.energy_j, found.accesses) == (recorded.cycles, recorded.energy_j, recorded.accesses)


ONE_LEVEL = """
architecture:
  version: '0.4'
  subtree:
  - name: top
    attributes: {technology: 40nm, global_cycle_seconds: 1e-9, power_gated_at: null}
    enabled: true
    local:
    - {name: 'Buf[1..1]', class: regfile, attributes: {depth: 64, width: 8, datawidth: 8}, enabled: true}
    - {name: 'Off[1..1]', class: regfile, attributes: {depth: 64, width: 8, datawidth: 8}, enabled: false}
    - {name: 'MAC[1..1]', class: intmac, attributes: {width: 8}, enabled: true}
problem:
  version: '0.4'
  shape:
    name: C1
    dimensions: [R, P]
    data_spaces:
    - {name: Weights, projection: [[[R]]]}
    - {name: Inputs, projection: [[[R], [P]]]}
    - {name: Outputs, projection: [[[P]]], read_write: true}
  instance: {R: 3, P: 16, H: 1, W: 18, Hpad: 0, Wpad: 1, densities: {}}
mapping:
- {target: Buf, type: temporal, factors: 'R=3 P=16', permutation: RP}
ERT:
  version: '0.4'
  tables:
  - {name: top.Buf, actions: [{name: read, energy: 1}, {name: write, energy: 2}, {name: update, energy: 3}, {name: leak, energy: 0.00086}]}
  - {name: top.MAC, actions: [{name: compute, energy: 4}, {name: leak, energy: 100}]}
"""


def test_the_expanded_form_and_its_leakage(tmp_path):
    """`enabled`, sizes that no data space projects through, and `leak`: 48 cycles times 0.86 fJ, as 115,513.92 and 115,472.64 fJ differ in
    exercise 00 of Accelergy's tutorial; arithmetic does not leak in Timeloop's model (buffer.cpp, FinalizeBufferEnergy)."""
    path = written(tmp_path, ONE_LEVEL)
    answer = evaluate(*read_mapped(path, path, path))
    assert answer.cycles == 48 and [name for name, _ in answer.leakage_j] == ["Buf"]
    assert answer.leakage_j[0][1] == pytest.approx(48 * 0.86e-15)
    dry = written(tmp_path, ONE_LEVEL.replace(", {name: leak, energy: 0.00086}", ""), "dry.yaml")
    assert answer.energy_j - evaluate(*read_mapped(dry, dry, dry)).energy_j == pytest.approx(48 * 0.86e-15, rel=1e-6)
    other = written(tmp_path, ONE_LEVEL.replace("H: 1,", "K: 1,"), "other.yaml")
    with pytest.raises(InputError, match=r"other\.yaml:\d+: problem\.instance\.K: neither a dimension"):
        read_problem(other)


def test_a_mapping_may_name_the_container_that_fans_out(tmp_path):
    design = written(
        tmp_path,
        """
architecture:
  version: 0.4
  nodes:
  - !Container {name: System, attributes: {global_cycle_seconds: 1e-9}}
  - !Component {name: Main, class: DRAM, attributes: {width: 256, datawidth: 8, vector_access_energy: 1}}
  - !Container {name: PE, spatial: {meshX: 16}}
  - !Component {name: Reg, class: regfile, attributes: {depth: 64, width: 8, datawidth: 8, vector_access_energy: 1}}
  - !Component {name: MAC, class: intmac, attributes: {width: 8, energy_per_op: 1}}
""",
        "arch.yaml",
    )
    layer = written(tmp_path, "{N: 1, C: 2, M: 32, P: 1, Q: 16, R: 1, S: 3, stride: 1}\n", "layer.yaml")
    for target in ("PE", "inter_PE_spatial"):
        text = f"""
mapping:
- {{target: Main, type: temporal, factors: S3 M2 C2}}
- {{target: {target}, type: spatial, factors: M16}}
- {{target: Reg, type: temporal, factors: Q16}}
"""
        assert evaluate(*read_mapped(design, layer, written(tmp_path, text, "map.yaml"))).cycles == 3 * 2 * 2 * 16


def test_a_tile_that_rested_is_fetched_whole_before_2025():
    """DRAM loops Q4 C4 P7 M4 over tiles of 32 x 10 x 16 inputs: each of 112 steps of P fetched 5,120 words before Timeloop's commit
    a12fff5 (573,440: timeloop-accelergy-exercises, 06-mapper-convlayer-eyeriss, timeloop-mapper.stats.txt); since then the tile keeps
    what a step of M left it (475,136), as the recorded runs of 4cf6d4c do."""
    layer = convolution(c=128, m=256, p=56, q=56, r=3, s=3)
    inputs = next(tensor for tensor in layer.tensors if tensor.name == "Inputs")
    level = {"read_energy_j": 1e-12, "write_energy_j": 1e-12, "update_energy_j": 1e-12}
    design = Architecture(
        "two levels",
        (Level("DRAM", ("Weights", "Inputs", "Outputs"), **level), Level("glb", ("Inputs", "Outputs"), **level)), 1, 1e-12,
    )  # fmt: skip
    above = tuple(Loop(*loop) for loop in (("Q", 4), ("C", 4), ("P", 7), ("M", 4)))
    below = tuple(Loop(*loop) for loop in (("M", 64), ("C", 32), ("P", 8), ("Q", 14), ("R", 3), ("S", 3)))
    mapping = Mapping((("DRAM", above), ("glb", below)))
    assert inputs.size({"N": 1, "C": 32, "M": 64, "P": 8, "Q": 14, "R": 3, "S": 3}) == 5120
    for rest_resets, words in ((True, 573_440), (False, 475_136)):
        found = evaluate(layer, design, mapping, rest_resets=rest_resets)
        assert {a.level: (a.reads, a.fills) for a in found.accesses if a.tensor == "Inputs"}["DRAM"] == (words, 0)
        assert next(a.fills for a in found.accesses if (a.level, a.tensor) == ("glb", "Inputs")) == words


@pytest.mark.parametrize("design", [V03, V04])
def test_constraints_of_timeloop_lead_to_the_same_proven_optimum(design):
    ours = best_mapping(convolution(c=3, m=32, p=112, q=112, r=3, s=3, stride=2), read_architecture(RECORDED / "architecture.yaml"))
    problem, architecture = read_constrained(design, LAYER, ert=ERT)
    theirs = best_mapping(problem, architecture)
    assert ours.proven and theirs.proven
    assert (ours.evaluation.cycles, ours.tilings) == (theirs.evaluation.cycles, theirs.tilings)
    assert ours.value == pytest.approx(theirs.value, rel=1e-12)


def test_a_permutation_fixes_the_order_of_several_loops(tmp_path):
    free, held = read_constrained(V03, LAYER, ert=ERT)[1], None
    text = yaml.safe_dump({"mapspace_constraints": [{"target": "shared_glb", "type": "temporal", "permutation": "MQP"}]})
    base = V03.read_text().replace('    - {target: shared_glb, type: temporal, permutation: "N"}\n', "")
    design = written(tmp_path, base, "arch.yaml")
    problem, held = read_constrained(design, LAYER, ert=ERT, constraints=[written(tmp_path, text)])
    assert held.rule_at["shared_glb"].order == ("M", "Q", "P")
    best, ordered = best_mapping(problem, free), best_mapping(problem, held)
    assert ordered.proven and ordered.value >= best.value
    inside_out = [loop.dimension for loop in reversed(ordered.mapping.at.get("shared_glb", ()))]
    first = [d for d in inside_out if d in "MQP"]
    assert inside_out[: len(first)] == first == sorted(first, key="MQP".index)


def test_an_ordered_rule_equals_trying_every_order():
    # Against plain enumeration: of all orders at one level that respect the rule, the search finds the cheapest.
    import itertools

    from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level, Rule

    levels = (
        Level("L0", ("Weights", "Inputs", "Outputs"), read_energy_j=9e-12, write_energy_j=8e-12, update_energy_j=7e-12),
        Level("L1", ("Weights", "Inputs", "Outputs"), 1, 40, read_energy_j=2e-12, write_energy_j=2e-12, update_energy_j=1e-12),
    )
    rule = Rule(order=("P", "C"), factors=(("P", 2), ("C", 2), ("M", 2)))
    design = Architecture("small", (replace(levels[0], fanout=(Axis("spatial_X", 1),)), levels[1]), 1, 1e-12, rules=(("L0", rule),))
    problem = convolution(c=4, m=4, p=4, q=1, r=1, s=1)
    found = best_mapping(problem, design, "energy")
    values = []
    for outer in itertools.permutations("PCM"):
        order = list(reversed(outer))
        if order.index("P") == 0 and order.index("C") == 1:
            loops = (("L0", tuple(Loop(d, 2) for d in outer)), ("L1", tuple(Loop(d, 2) for d in "PCM")))
            for inner in itertools.permutations("PCM"):
                values.append(evaluate(problem, design, Mapping((loops[0], ("L1", tuple(Loop(d, 2) for d in inner))))).energy_j)
    assert found.proven and found.value == pytest.approx(min(values), rel=1e-12)
    assert [loop.dimension for loop in found.mapping.at["L0"]] == ["M", "C", "P"]


def test_problem_with_a_named_shape_and_with_gemm(tmp_path):
    named = read_problem(
        written(tmp_path, "problem: {shape: cnn-layer, R: 3, S: 3, P: 56, Q: 28, C: 64, K: 32, N: 2, Wstride: 2, Hdilation: 3}")
    )
    assert dict(named.bounds) == {"R": 3, "S": 3, "P": 56, "Q": 28, "C": 64, "K": 32, "N": 2}
    inputs = next(t for t in named.tensors if t.name == "Inputs")
    # Timeloop's problem-shapes/cnn_layer.yaml: [R, Wdilation] + [P, Wstride], [S, Hdilation] + [Q, Hstride].
    assert inputs.ranks == ((("N", 1),), (("C", 1),), (("R", 1), ("P", 2)), (("S", 3), ("Q", 1)))
    gemm = """
problem:
  version: 0.4
  shape:
    name: GEMM
    dimensions: [M, N, K]
    data_spaces:
    - {name: A, projection: [M, K]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: True}
  instance: {M: 4, N: 8, K: 16}
"""
    problem = read_problem(written(tmp_path, gemm))
    assert problem.macs == 512 and [t.name for t in problem.tensors if t.read_write] == ["Z"]
    assert problem.tensors[0].ranks == ((("M", 1),), (("K", 1),))


def test_energy_tables_of_every_version(tmp_path):
    # Version 0.2: tables by name; where an action has several arguments the costliest counts, as in Timeloop's topology.cpp.
    text = "ERT: {version: 0.2, tables: {sys.PE.spad: {read: [{arguments: {a: 0}, energy: 1}, {arguments: {a: 1}, energy: 3}]}}}"
    assert energy_table(File(written(tmp_path, text))) == {"spad": {"read": 3.0}}
    text = "ERT: {version: '0.4', tables: [{name: 'top.spad[1..168]', actions: [{name: read, arguments: {}, energy: 2}]}]}"
    assert energy_table(File(written(tmp_path, text))) == {"spad": {"read": 2.0}}
    assert split_name("PE[0..167]") == ("PE", 168) and split_name("PE") == ("PE", 1)


def test_energy_from_attributes_and_block_and_cluster_sizes(tmp_path):
    text = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: main, class: DRAM, attributes: {word-bits: 16, block-size: 4, vector-access-energy: 512}}
    - {name: buffer, class: SRAM, attributes: {sizeKB: 2, word-bits: 16, block-size: 2, width: 64,
        vector-access-energy: 6, multiple-buffering: 2, bandwidth: 8}}
    - {name: 'file[0..3]', class: regfile, attributes: {entries: 9, word-bits: 16, meshX: 2, meshY: 2, vector-access-energy: 1}}
    - {name: 'mac[0..3]', class: intmac, attributes: {meshX: 2, energy-per-op: 0.5}}
"""
    design = read_design(File(written(tmp_path, text))).architecture
    main, buffer, registers = design.levels
    assert (main.block_words, main.capacity_words, main.read_energy_j) == (4, None, pytest.approx(512e-12))
    # 2 KiB of 16-bit words, half of it because of double buffering; two clusters of two words share an access of 64 bits.
    assert (buffer.capacity_words, buffer.block_words, buffer.read_bandwidth) == (512, 2, 4.0)
    assert buffer.read_energy_j == pytest.approx(6e-12)
    assert [(axis.name, axis.size) for axis in buffer.fanout] == [("spatial_X", 2), ("spatial_Y", 2)]
    assert registers.instances == design.mac_count == 4 and registers.capacity_words == 9
    assert design.mac_energy_j == pytest.approx(0.5e-12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_banks: 32", "n_bangs: 32", r"timeloop_.*:\d+: .*n_bangs: not supported, or unknown"),
        ("class: intmac", "class: XY_NoC", r"class XY_NoC is not modelled"),
        ("version: 0.3", "version: 0.1", r"architecture.version: expected version 0.2, 0.3 or 0.4"),
        ("memory_depth: 192, ", "", r"needs depth, entries or sizeKB"),
        ("word-bits: 8, meshX: 14", "word-bits: 8, meshX: 13", r"meshX x meshY is 13 x"),
        ("update_fifo_depth: 2", "metadata_datawidth: 4", r"metadata_datawidth: metadata_datawidth = 4 is not modelled"),
        ("architecture_constraints:", "sparse_optimizations:", r"sparse_optimizations: not a section"),
        ("permutation: NCPRS QM, split: 7", "permutation: NCPRS QX, split: 7", r"unknown dimension X"),
        ("factors: N=1 M=1 P=1 Q=1 S=1}", "factors: N>=1}", r"expected factors such as"),
        ("{target: DRAM,", "{target: DRUM,", r"no level that stores"),
        ("type: bypass, keep: [Inputs, Outputs]", "type: utilization, min: 0.9", r"min: not modelled"),
        ("    - name: system", "    - name: {{system}}", r"a template: expand it first"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(tmp_path, old, new, message):
    text = V03.read_text()
    assert old in text
    path = written(tmp_path, text.replace(old, new), "timeloop_v03.yaml")
    with pytest.raises(InputError, match=message) as raised:
        read_constrained(path, LAYER, ert=ERT)
    assert "\n" not in str(raised.value) and str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("factors: R=3", "factors: 'R=3,2'", r"imperfect factors are not modelled"),
        ("type: temporal, factors: R=3", "type: skew, factors: R=3", r"mapping.7.type: expected temporal, spatial"),
        ("split: 0}", "split: 7}", r"S = 3 has no lanes along this direction; see split|C = 3 has no lanes"),
        ("target: weights_spad, type: temporal", "target: weights, type: temporal", r"no such level"),
        ("keep: [Outputs]", "keep: [Output]", r"unknown data space Output"),
        ("permutation: QPCMRSN", "permutation: QPCMRSN, no_temporal_reuse: [Inputs]", r"no_temporal_reuse: not modelled"),
        ("factors: M=4 Q=2 P=8", "factors: M<=4 Q=2 P=8", r"gives every factor exactly"),
        ("type: bypass, keep: [Weights, Inputs, Outputs]", "type: bypass, bypass: [Weights]", r"outermost level must keep"),
    ],
)
def test_mapping_errors_name_file_and_key(tmp_path, old, new, message):
    text = MAPPING.read_text()
    assert old in text
    with pytest.raises(InputError, match=message):
        read_mapped(V03, LAYER, written(tmp_path, text.replace(old, new)), ert=ERT)


def test_a_wrong_product_and_a_missing_energy_are_told_by_the_command(tmp_path, capsys):
    mapping = written(tmp_path, MAPPING.read_text().replace("P=8", "P=7"))
    native = ["loopnest", "--arch", str(V03), "--layer", str(LAYER), "--out", str(tmp_path / "out.json")]
    assert command([*native, "--ert", str(ERT), "--mapping", str(mapping)]) == 2
    assert "the loop bounds multiply to 98, the layer has 112" in capsys.readouterr().err
    assert command([*native, "--mapping", str(MAPPING)]) == 2
    assert "DRAM: has no energy: give an energy reference table (--ert)" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_a_factor_of_zero_is_the_whole_dimension(tmp_path):
    text = MAPPING.read_text().replace("factors: R=3", "factors: R=0")
    problem, architecture, loops = read_mapped(V03, LAYER, written(tmp_path, text), ert=ERT)
    assert loops.at["weights_spad"] == (Loop("R", 3),)
    assert evaluate(problem, architecture, loops).cycles == 86_016


def test_our_own_files_are_not_taken_for_timeloops(tmp_path):
    assert not is_native(RECORDED / "architecture.yaml") and not is_native(RECORDED / "mappings/refmodel.yaml")
    assert not is_native(written(tmp_path, OURS)) and not is_native(tmp_path / "missing.yaml")
    assert all(is_native(path) for path in (V03, V04, LAYER, MAPPING))


def test_map_says_when_nothing_is_proven_and_keeps_timeloops_order_in_the_seeded_search(tmp_path, capsys):
    # Without constraints the space is too large to search to the end; annealing must respect a fixed order all the same.
    text = V03.read_text().split("architecture_constraints:")[0]
    text += "architecture_constraints:\n  - {target: DRAM, type: temporal, permutation: NQP}\n"
    text += "  - {target: DummyBuffer, type: bypass, bypass: [Weights, Inputs, Outputs]}\n"
    arch, out = written(tmp_path, text, "arch.yaml"), tmp_path / "found.yaml"
    assert command(["map", "--arch", str(arch), "--ert", str(ERT), "--layer", str(LAYER), "--out", str(out)]) == 0
    assert "best found, not proven, for edp" in capsys.readouterr().err
    outer = [loop["dim"] for loop in yaml.safe_load(out.read_text())["loops"] if loop["at"] == "DRAM"]
    held = [d for d in outer if d in "NQP"]
    assert held == sorted(held, key="PQN".index) and outer[len(outer) - len(held) :] == held


@pytest.mark.timeout(60)
def test_progress_is_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with Progress(every_s=0.01, stream=stream) as progress:
        while "preparing" not in stream.getvalue():
            time.sleep(0.005)
        progress(1500, 3000)
        while "1,500 of 3,000 configurations expanded" not in stream.getvalue():
            time.sleep(0.005)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 2 and all(" s: " in line for line in lines)


def test_layers_of_one_name_are_refused(tmp_path, capsys):
    arch = str(EXAMPLES / "map" / "arch.yaml")
    layers = [str(EXAMPLES / folder / "layer.yaml") for folder in ("map", "loopnest")]
    twice = ["map", "--arch", arch, "--layer", layers[0], "--layer", layers[1]]
    assert command(twice) == 2 and "two layers have one file name" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
