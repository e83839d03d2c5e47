"""The reader: loops, exchanges, forms of a program, and files that are no programs."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.paths import ROOT
from analysis.predict.program.predict import operator_times, predict, predictions
from analysis.predict.program.predict_report import as_json, table
from analysis.predict.program.predict_trace import steps
from analysis.predict.program.study_fusion import kernels
from analysis.studies.workloads.zoo import catalogue as zoo
from analysis.workloads import own_process
from analysis.workloads.graph import Tensor, element_bits
from analysis.workloads.hlo import bindings
from analysis.workloads.hlo import child as hlo_child
from analysis.workloads.hlo import cost as costs
from analysis.workloads.hlo.cost import valid_positions
from analysis.workloads.hlo.loops import linear_trips
from analysis.workloads.hlo.reader import read
from analysis.workloads.hlo.types import device_groups, groups_of_axes
from tests.golden import answer, kept
from tests.workloads import hlo_texts as texts
from tests.workloads.hlo_oracle import our_cost, our_module, xla_cost


@given(
    st.integers(0, 12), st.integers(0, 5), st.integers(0, 12), st.integers(1, 4), st.integers(-3, 6), st.integers(1, 4), st.integers(1, 4)
)
def test_valid_positions_by_definition(size: int, kernel: int, output: int, stride: int, low: int, dilation: int, holes: int) -> None:
    meeting = 0
    for place, tap in itertools.product(range(output), range(kernel)):
        index = place * stride - low + tap * dilation
        meeting += index % holes == 0 and 0 <= index // holes < size
    assert valid_positions(size, kernel, output, stride, low, dilation, holes) == meeting


@given(st.integers(-9, 9), st.integers(-4, 4), st.integers(-9, 9), st.sampled_from(["LT", "LE", "GT", "GE", "NE", "EQ"]))
def test_linear_trips_by_running(start: int, step: int, bound: int, direction: str) -> None:
    runs = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "NE": int.__ne__, "EQ": int.__eq__}[direction]
    trips, now = 0, start
    while runs(now, bound) and trips < 100:
        trips, now = trips + 1, now + step
    assert linear_trips(start, step, bound, direction) == (None if trips == 100 else trips)


def sine_runs(text: str) -> int:
    return sum(operator.trips for operator in our_module(text).operators if operator.name == "stablehlo.sine")


def test_trip_counts() -> None:
    assert sine_runs(texts.COUNTED_LOOP) == 3  # 0, 5, 10 are below 12; the bound is carried unchanged
    assert sine_runs(texts.CHANGING_LOOP) == 2  # i -> 2 i + 5: 0, 5, 15
    unknown = our_module(texts.DATA_LOOP)
    assert sine_runs(texts.DATA_LOOP) == 1
    assert any("as often as its data say: counted once" in note for note in unknown.notes)
    assert not all(scope.trips_known for scope in unknown.scopes)


def test_groups_of_collectives() -> None:
    found = {
        operator.work.collective.kind: operator.work.collective
        for operator in our_module(texts.COLLECTIVES).collectives
        if operator.work.collective
    }
    assert found["all-gather"].groups == found["reduce-scatter"].groups == ((0, 1), (2, 3))
    assert (found["all-gather"].input_bytes, found["all-gather"].output_bytes) == (128, 256)
    assert found["collective-permute"].groups == ((0, 1), (1, 2), (2, 3), (3, 0))
    assert found["all-reduce"].group_size == 4
    (mesh,) = our_module(texts.MESH_AXES).collectives
    assert mesh.work.collective is not None and mesh.work.collective.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert our_module(texts.MESH_AXES).partitions == 8
    assert mesh.work.inputs[0].shape == (4, 4)  # one device's shard
    (gspmd,) = our_module(texts.GSPMD).collectives
    assert gspmd.work.collective is not None and gspmd.work.collective.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert not our_module(texts.GSPMD).unknown


def test_process_groups_of_the_specification() -> None:
    # StableHLO specification, process groups: 2 replicas, 2 partitions; device = replica * partitions + partition here.
    assert device_groups([[0, 1]], "replica", 2, 2) == [[0, 2], [1, 3]]
    assert device_groups([[0, 1]], "partition", 2, 2) == [[0, 1], [2, 3]]
    assert device_groups([[0], [1]], "replica and partition", 2, 2) == [[0, 1], [2, 3]]
    assert device_groups([[0, 3], [1, 2]], "device", 2, 2) == [[0, 3], [1, 2]]
    assert device_groups([[0, 1], [2, -1]], "device", 1, 3) == [[0, 1], [2]]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_groups_of_mesh_axes_part_the_devices(sizes: list[int], data: st.DataObject) -> None:
    axes = [(f"a{place}", size) for place, size in enumerate(sizes)]
    used = data.draw(st.lists(st.sampled_from(axes), unique=True))
    total, width = 1, 1
    for _, size in axes:
        total *= size
    for _, size in used:
        width *= size
    groups = groups_of_axes(axes, [], [(name, 0, 0) for name, _ in used])
    assert sorted(device for group in groups for device in group) == list(range(total))
    assert {len(group) for group in groups} == {width}


def test_half_an_axis() -> None:
    # Shardy: "x":(1)2 is the slower half of an axis of 4, "x":(2)2 the faster one.
    assert groups_of_axes([("x", 4)], [], [("x", 1, 2)]) == [[0, 2], [1, 3]]
    assert groups_of_axes([("x", 4)], [], [("x", 2, 2)]) == [[0, 1], [2, 3]]
    assert groups_of_axes([("x", 2), ("y", 2)], [3, 2, 1, 0], [("y", 0, 0)]) == [[3, 2], [1, 0]]


def test_element_bits() -> None:
    expected = {
        "f32": 32,
        "bf16": 16,
        "i1": 8,
        "i4": 4,
        "f8E4M3FN": 8,
        "f4E2M1FN": 4,
        "complex<f64>": 128,
        "!quant.uniform<i8:f32, 0.5>": 8,
        "ui64": 64,
    }
    assert {dtype: element_bits(dtype) for dtype in expected} == expected


def test_parts_of_programs() -> None:
    composite = our_module(texts.COMPOSITE)
    assert [operator.name for operator in composite.operators] == ["stablehlo.sine", "stablehlo.add"]
    assert composite.operators[1].operands == (0, -1)  # the sine, and argument 0
    strange = our_module(texts.STRANGE)
    assert strange.unknown == {"foo.bar": 1, "stablehlo.custom_call @mine": 1}
    assert strange.flops == 0 and strange.bytes > 0
    assert our_module(texts.DYNAMIC).unknown == {"stablehlo.abs (shape not known before the run)": 1}
    assert our_module(texts.REFINED).flops == 24 and not our_module(texts.REFINED).unknown
    quantised = our_module(texts.QUANTISED)
    assert quantised.flops == 2 * 4 * 6 * 8 + 32 and quantised.arguments[0].bytes == 24
    assert our_module(texts.CHECKED).transcendentals == 4
    assert our_module(texts.TOKENS).results[0].dtype == "token"
    assert our_module(texts.EINSUM).flops == xla_cost(texts.EINSUM)["flops"] == 2 * 4 * 5 * 6


def test_complex_constant_is_read_and_costs_what_xla_says() -> None:
    assert our_cost(texts.COMPLEX_CONSTANT) == xla_cost(texts.COMPLEX_CONSTANT)
    assert not our_module(texts.COMPLEX_CONSTANT).unknown


def test_quantised_elements_are_costed_as_products_or_refused() -> None:
    assert any("zero points" in note for note in our_module(texts.QUANTISED).notes)
    refused = hlo_child.read(texts.QUANTISED_SUM.encode(), None)
    assert refused["line"] == 3 and "quantised elements in add" in refused["error"]


def test_text_bytecode_and_portable_artifact_say_the_same(tmp_path: Path) -> None:
    lowered = zoo.lower("llama2_7b_train_unrolled", layers=1, sequence=32)
    found = []
    for form in ("text", "bytecode", "portable"):
        path = tmp_path / f"program.{form}"
        path.write_bytes(zoo.serialise(lowered, form))  # type: ignore[arg-type]
        found.append(read(path))
    packed = tmp_path / "program.mlir.gz"
    packed.write_bytes(gzip.compress((tmp_path / "program.text").read_bytes()))
    assert read(packed).operators == found[0].operators == found[1].operators
    assert found[0].flops == found[1].flops == found[2].flops


def test_files_that_are_no_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, (content, expected) in texts.broken().items():
        path = tmp_path / f"{name}.mlir"
        path.write_bytes(content)
        assert main(["hlo", "cost", str(path)]) == 2, name
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.strip().splitlines()) == 1, name
        assert expected in said.err and str(path) in said.err, (name, said.err)


def test_limits_and_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(texts.COUNTED_LOOP)
    large = tmp_path / "large.mlir"
    large.write_bytes(b"// " + b" " * (80 << 20) + b"\n" + texts.COUNTED_LOOP.encode())
    with pytest.raises(InputError, match=r"needs more than 0\.1 GiB of memory"):
        read(large, memory_bytes=100 << 20)
    numbers = ",".join(["1.5"] * 4_000_000)
    large.write_text(f"func.func @main() {{ %0 = stablehlo.constant dense<[{numbers}]> : tensor<4000000xf32> return }}")
    with pytest.raises(InputError, match="not read within 1 s of processor time"):
        read(large, seconds=1)
    split = tmp_path / "split.mlir"
    split.write_text(texts.COUNTED_LOOP + "// -----\n" + texts.COMPOSITE)
    assert main(["hlo", "cost", str(split), "--part", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["by_operation"]["stablehlo.sine"]["transcendentals"] == 4
    with pytest.raises(InputError, match="no part 3"):
        read(split, part=3)
    with pytest.raises(InputError, match="no function @other"):
        read(path, entry="other")
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.mlir")


@pytest.mark.parametrize("wrong", [MemoryError(), SystemError("error return without exception set")])
def test_memory_that_ends_in_the_parser_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Exception) -> None:
    """nanobind's calls may fail without an exception where no memory is left: seen under the limit of `make fuzz`."""

    def raises(*_: object) -> None:
        raise wrong

    monkeypatch.setattr(hlo_child, "read", raises)
    path = tmp_path / "p.mlir"
    path.touch()
    told = json.loads(own_process.answer(str(path), None, 0, 1 << 20, {}))
    assert told == {"error": "needs more than 0.0 GiB of memory to read", "line": 0}


def test_another_fault_of_the_parser_is_not_called_want_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise SystemError("error return without exception set")

    monkeypatch.setattr(hlo_child, "read", raises)
    path = tmp_path / "p.mlir"
    path.touch()
    with pytest.raises(SystemError):
        own_process.answer(str(path), None, 0, 1 << 50, {})


def test_the_parser_s_own_want_of_memory_is_no_fault_of_the_program() -> None:
    """Seen with 100 MiB for a program of sixty thousand products: "is not a StableHLO program: std::bad_alloc"."""
    for told in (MemoryError(), RuntimeError("std::bad_alloc")):
        with pytest.raises(MemoryError):
            bindings._failure(told)
    assert str(bindings._failure(RuntimeError("error: no bad_alloc"))) == "no bad_alloc"


@pytest.mark.parametrize("place", ["module", "function"])
def test_a_name_that_is_not_utf8_is_told(place: str) -> None:
    """Bytes of a name that a damaged bytecode held; as text an escape writes them."""
    module, function = ('@"\\FF"', "@main") if place == "module" else ("@m", '@"\\FF"')
    text = f"module {module} {{ func.func public {function}(%a: tensor<2xf32>) -> tensor<2xf32> {{ return %a : tensor<2xf32> }} }}"
    assert hlo_child.read(text.encode(), None) == {"error": "holds a name that is not UTF-8 text", "line": 0}


ONE_OF_EACH = texts.program(
    """
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.exponential %a : tensor<8x6xf32>
  %1 = stablehlo.add %0, %a : tensor<8x6xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
  %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<8xf32>) -> tensor<8x5xf32>
  %6 = stablehlo.slice %5 [0:8:2, 1:4] : (tensor<8x5xf32>) -> tensor<4x3xf32>
  %7 = stablehlo.pad %6, %z, low = [1, 0], high = [0, 2], interior = [1, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<8x5xf32>
  %8 = stablehlo.concatenate %5, %7, dim = 1 : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x10xf32>
  %9 = stablehlo.convert %8 : (tensor<8x10xf32>) -> tensor<8x10xbf16>
  %10 = stablehlo.compare LT, %8, %8 : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xi1>
  %11 = stablehlo.select %10, %8, %8 : tensor<8x10xi1>, tensor<8x10xf32>
  %12 = stablehlo.fft %11, type = RFFT, length = [10] : (tensor<8x10xf32>) -> tensor<8x6xcomplex<f32>>
  %13 = "stablehlo.sort"(%4) <{dimension = 0 : i64}> ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8x6xf32>""",  # noqa: E501
    arguments="%a: tensor<8x6xf32>",
    result="tensor<8x6xf32>",
)


def _programs() -> dict[str, str | bytes]:
    found = {name: text for name, text in vars(texts).items() if name.isupper() and len(name) > 3 and isinstance(text, (str, bytes))}
    return {"ONE_OF_EACH": ONE_OF_EACH, **found}


def test_every_program_of_ours_as_a_graph() -> None:
    """Operators with their class, sizes, operations, bytes, runs and groups, and what each device would take by every fidelity: XLA's own
    counts are in test_hlo_against_xla.py, products and bandwidth by hand in composition/test_predict.py."""
    found: dict[str, object] = {}
    for name, text in _programs().items():
        record = hlo_child.read(text.encode() if isinstance(text, str) else text, None)
        if "error" in record:
            found[name] = record["error"]
            continue
        module = our_module(text)
        found[name] = {
            "operators": [{key: getattr(one, key) for key in type(one).__slots__} for one in module.operators],
            "counted": [[one.flops, one.bytes, one.transcendentals] for one in module.operators],
            "rest": {key: getattr(module, key) for key in type(module).__dataclass_fields__ if key not in ("operators",)},
        }
        for device in ("A100-SXM4-80GB", "TPU-v5e", "T4"):
            for fidelity in ("roofline", "efficiency", "systolic", "kernels"):
                said = answer(
                    lambda module=module, device=device, fidelity=fidelity: as_json(
                        predict(module, devices.load(device), fidelity, launch_s=3e-6)
                    )
                )  # type: ignore[misc]
                found[f"{name} {device} {fidelity}"] = said
        on = systems.load("HGX-H100")
        one = predict(module, devices.load("H100"), "roofline", system=on, f32_in="bf16")
        found[f"{name} on H100"] = [
            as_json(one),
            operator_times(module, one),
            [
                {"seconds": step if isinstance(step, float) else 0.0, "collective": None if isinstance(step, float) else step}
                for step in steps(module, one)
            ],
            [vars(kernel) for kernel in kernels(module)][:6],
        ]
    kept("programs", found)


def test_devices_at_all_fidelities() -> None:
    """Rows of `hlo predict --device all`: which devices, which fidelities, and how a type that one lacks is run."""
    module = our_module(ONE_OF_EACH)
    rows = table(predictions(module, "A100", "all", "HGX-H100", "tf32"))
    kept(
        "fidelities",
        {
            "a100": rows,
            "devices": [one.device for one in predictions(module, "all", "roofline")],
            "refused": [
                answer(lambda: predictions(module, "A100", "exact")),
                answer(lambda: predictions(module, "A100", "roofline", f32_in="fp8")),
                answer(lambda: predict(module, devices.load("MI300X"), "systolic")),
            ],
        },
    )


def test_every_operation_has_its_cost() -> None:
    """Operations, bytes and transcendentals of every name, of tensors of 3 x 5, 7, 11 and 13 values (XLA's conventions: cost.py's head)."""
    tensors = [Tensor((3, 5), "f32", 60), Tensor((7,), "bf16", 14), Tensor((11,), "i8", 11), Tensor((13,), "f64", 104)]
    out = [Tensor((2, 2), "f32", 16), Tensor((1, 17), "i32", 68)]
    names = sorted({*costs.TRANSCENDENTAL, *costs.ELEMENTWISE, *costs.MOVEMENT, *costs.COLLECTIVE})
    names += [
        "constant",
        "slice",
        "real_dynamic_slice",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "dynamic_gather",
        "torch_index_select",
        "scatter",
    ]
    names += [
        "reduce",
        "map",
        "batch_norm_training",
        "sort",
        "rng",
        "rng_bit_generator",
        "triangular_solve",
        "cholesky",
        "dot",
        "custom_call",
    ]
    region = [costs.Region(3, 2)]
    found: dict[str, object] = {
        name: [costs.simple_cost(name, tensors[:many], out[:many], region) for many in (2, 4)] for name in names if name != "scatter"
    }
    found["scatter"] = [costs.simple_cost("scatter", tensors[:many], out[: many // 2], region) for many in (2, 3)]
    found["scatter of two"] = costs.simple_cost("scatter", [*tensors, *tensors], out, region)
    found["sort of one"] = costs.simple_cost("sort", [Tensor((1,), "f32", 4)], out, region)
    grown = [((1, 5), (3, 5), (0, 1)), ((3, 5), (3, 5), (0, 1)), ((1, 5), (1, 5), (0, 1)), ((5,), (3, 5), (1,)), ((1,), (3, 1), (1,))]
    found["broadcasts"] = [costs.broadcast_bytes(Tensor(a, "f32", 20), Tensor(b, "f32", 60), places) for a, b, places in grown]
    windows = [
        ((1, 5), ((0, 0), (2, 2)), (4, 3), 1),
        ((1, 5), ((0, 0), (2, 2)), (4, 4), 1),
        ((1, 5), ((0, 0), (2, 2)), (4, 3), 2),
        ((1, 5), ((0, 0), (2, 1)), (4, 3), 1),
        ((3, 5), ((0, 0), (2, 2)), (4, 3), 1),
        ((1, 5), ((1, 1), (2, 2)), (4, 3), 1),
        ((1, 4), ((0, 0), (2, 2)), (4, 3), 1),
        ((1, 1), ((0, 0), (0, 0)), (4, 3), 1),
        ((7,), ((3, 3),), (4,), 1),
    ]
    found["windows"] = [
        costs.reduce_window_count(window, padding, Tensor(shape, "f32", 48), arrays) for window, padding, shape, arrays in windows
    ]
    kept("operations", found)


def test_the_fragment_on_the_page_reads_as_the_page_explains_it(tmp_path: Path) -> None:
    """`book/hlo_programs.md` shows a product without its closing braces: twice the product of three lengths, three tensors of bf16."""
    fragment = (ROOT / "book" / "hlo_programs.md").read_text(encoding="utf-8").split("```\nmodule @jit_product")[1].split("```")[0]
    (tmp_path / "product.mlir").write_text(f"module @jit_product{fragment}  }}\n}}\n", encoding="utf-8")
    (operator,) = [each for each in read(tmp_path / "product.mlir").operators if each.flops]
    assert (operator.op_class, operator.flops, operator.bytes) == ("matmul", 2 * 4096**3, 3 * 4096**2 * 2)
