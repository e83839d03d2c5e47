"""Cases that once ended in a traceback, ran for minutes or took gigabytes: each is one line now."""

from __future__ import annotations

import contextlib
import gzip
import html
import json
import os
import re
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from analysis import packed, tables
from analysis.accelerators.systolic.files import read_design, read_topology
from analysis.accelerators.timeloop.yaml_tree import split_name
from analysis.artifact.publishing import build
from analysis.artifact.publishing.pages import without_tags
from analysis.artifact.survey.bibliography import load_bibliography, printed_names
from analysis.errors import DatasetMissing, InputError
from analysis.hardware.quantity import Quantity
from analysis.networks.case_table import answer_cases
from analysis.networks.native import read_native
from analysis.networks.network_file import read_network
from analysis.networks.trace import read_groups, read_nodes
from analysis.paths import DATA, ROOT
from analysis.serving.points.request_answers import read_meta
from analysis.studies.cores.blocks import data as blocks
from analysis.tables import read_csv
from analysis.units import parse

CFG = """[general]
run_name = a
[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 1
FilterSramSzkB: 1
OfmapSramSzkB: 1
Dataflow: os
Bandwidth: 10
[run_presets]
InterfaceBandwidth: CALC
"""
NETWORK = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n"
SYSTEM = {f"{name}-implementation": ["ring"] for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")} | {
    "local-mem-bw": 1600
}


def refused(read, message: str) -> bool:
    """Whether `read` ends in one printable line, below 1,500 characters, in which the pattern is found."""
    with pytest.raises(InputError) as caught:
        read()
    line = str(caught.value)
    return line.isprintable() and len(line) < 1500 and re.search(message, line) is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("preferred-dataset-splits", "many"),
        ("preferred-dataset-splits", [1]),
        ("preferred-dataset-splits", 10**12),
        ("endpoint-delay", None),
        ("local-mem-bw", {"a": 1}),
        ("scheduling-policy", ["LIFO"]),
        ("all-reduce-implementation", [1]),
        ("all-reduce-implementation", "ring"),
    ],
)
def test_system_json_of_wrong_types(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / "n.yaml").write_text(NETWORK)
    (tmp_path / "s.json").write_text(json.dumps(SYSTEM))
    assert read_native(tmp_path / "n.yaml", tmp_path / "s.json")[2] is None
    (tmp_path / "s.json").write_text(json.dumps(SYSTEM | {key: value}))
    assert refused(lambda: read_native(tmp_path / "n.yaml", tmp_path / "s.json"), r"s\.json: ")


def test_files_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\n\xff\xfe")
    for read in (load_bibliography, read_design, read_topology):
        assert refused(lambda read=read: read(path), "file:2: is not UTF-8")
    for read in (read_groups, read_csv, read_nodes):
        assert refused(lambda read=read: read(path), "UTF-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("run_name = a", "run_name = %(x)s", ""),
        ("ArrayHeight: 8", "ArrayHeight: %d", "ArrayHeight: expected a whole number"),
        ("ArrayHeight: 8", "ArrayHeight: \u00b2", "ArrayHeight: expected a whole number"),
        ("ArrayHeight: 8", f"ArrayHeight: {'9' * 5000}", "ArrayHeight: expected a whole number"),
    ],
)
def test_cfg(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(CFG.replace(old, new), encoding="utf-8")
    if message:
        assert refused(lambda: read_design(path), message)
    else:
        assert read_design(path).name == "%(x)s"


@pytest.mark.parametrize("row", ["a,\u00b2,8,3,3,8,8,1", f"a,{'9' * 5000},8,3,3,8,8,1", "DP,8,8,3,3,900000000,8,1"])
def test_topology(tmp_path: Path, row: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"layer,h,w,fh,fw,c,f,s\n{row}\n", encoding="utf-8")
    assert refused(lambda: read_topology(path), r"t\.csv:2: ")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("size_bytes", "9" * 40), ("size_bytes", "1e40"), ("size_bytes", "\u00b2"), ("size_bytes", "x" * 70_000),
        ("size_bytes", "a\n\x1b[31m"),
        ("npus_per_dim", "1000000000000"), ("endpoint_delay", "9" * 18), ("latency_ns", "1e300"), ("preferred_dataset_splits", "999999999"),
    ],
)  # fmt: skip
def test_collectives(column: str, value: str) -> None:
    recorded = DATA / "recorded" / "astra-sim" / "collectives.csv"
    frame = pd.read_csv(recorded, dtype=str, keep_default_na=False, nrows=1)
    frame[column] = value
    assert refused(lambda: answer_cases(frame.drop(columns="npus"), "c.csv"), rf"c\.csv:2: {column}: ")


def test_nodes_and_groups(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    for deps in ("9" * 5000, "\u00b2", "-1"):
        path.write_text(f"rank,node_id,type,data_deps,ctrl_deps\n0,1,COMP_NODE,{deps},\n", encoding="utf-8")
        assert refused(lambda: read_nodes(path), "data_deps: expected node numbers")
    path.write_text(f'{{"1": [{"9" * 5000}]}}')
    assert refused(lambda: read_groups(path), "beyond 64 bits")
    path.write_text("[" * 200_000)
    assert refused(lambda: read_groups(path), "too deep")
    text = "topology: Ring\nbackend: analytical-unaware\nnpus_per_dim: 4\nbandwidth_GBps: 50\nlatency_ns: 500\n"
    for name in ("x" * 6000, '"a\\0b"'):
        path.write_text(f"{text}local_mem_bw_GBps: 1600\ngroups: {name}\n")
        assert refused(lambda: read_network(path), "groups")


def test_packed_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    packed = gzip.compress(b"a,b\n1,2\n" * 1000)
    for content in (packed[:-20], packed[:30] + b"\xff" * 30 + packed[60:]):
        path.write_bytes(content)
        assert refused(lambda: read_csv(path), r"t\.csv\.gz: ")
    for begins in (b"PK\x03\x04", b"BZh91AY", b"\xfd7zXZ\x00"):
        path.write_bytes(begins + b"nothing")
        assert refused(lambda: read_csv(path), r"t\.csv\.gz: is packed in a form that is not read")


def test_a_packed_table_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of its size on disk: refused before more than the bound is unpacked."""
    monkeypatch.setattr(packed, "MOST_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"op,device\n" + b"0,0\n" * (1 << 18)))
    assert refused(lambda: read_csv(path), r"t\.csv\.gz: holds more than 1,048,576 bytes when unpacked")
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert len(read_csv(path)) == 1
    path.write_bytes(b"a,b\n1,2\n")  # what is not packed is read as it is
    assert len(read_csv(path)) == 1


def test_a_checkout_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(build, "BUILD", tmp_path / "file")
    assert refused(build.lock, "needs a checkout that it may write into")


def test_system_calls_with_lengths_beyond_memory() -> None:
    from analysis.cores.riscv import linux
    from analysis.cores.riscv.operations import STATE_IMAGE_BASE, STATE_IMAGE_SIZE, STATE_PAGES_OFFSET

    state = np.zeros(64, np.int64)
    state[STATE_IMAGE_BASE], state[STATE_IMAGE_SIZE], state[STATE_PAGES_OFFSET] = 0x10000, 1 << 20, 1 << 20
    kernel = linux.Kernel(np.ones((1 << 20) + (1 << 8), np.uint8), state, 0x20000, 0x80000, None)
    for number in (63, 64, 66, 113, 160, 169, 214, 222, 278, 79, 80):  # read, write, writev, ... getrandom
        for size in (2**64 - 1, 2**63, 2**63 - 1, 2**40, 500 << 20):
            for address in (0x10000, 2**64 - 1, 0):
                registers = np.zeros(32, np.int64)
                registers[17] = number
                registers[10:16] = np.array([1 if number in (64, 66) else address, address, size, 0x30, 0, 0], np.uint64).view(np.int64)
                if number in (222, 278):  # mmap, getrandom: length second
                    registers[11] = np.array([size], np.uint64).view(np.int64)[0]
                    registers[13] = 0x30
                assert kernel.call(registers) is None
    registers[17], registers[10], registers[11] = 278, 0x10000, 300
    kernel.call(registers)
    assert registers[10] == 300 and kernel.memory[299] == 299 % 256


def test_traces_that_would_not_fit(tmp_path: Path) -> None:
    from analysis.studies.cores.trace_files import read_trace

    path = tmp_path / "t.npz"
    header = b"{'descr': '<u8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pc.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 80)
    assert refused(lambda: read_trace(path), r"pc\.npy: says that it holds more than is there")
    path.write_bytes(b"not a zip")
    assert refused(lambda: read_trace(path), "not a complete .npz trace")


def test_configurations_that_ask_too_much(tmp_path: Path) -> None:
    from analysis.serving.points.simulation import read_configuration

    path = tmp_path / "c.yaml"
    steps = "steps: {kind: linear, fixed_s: 0.009, prompt_token_s: 4.0e-5, decode_request_s: 1.0e-4}\n"
    for text in ("requests: {count: 1000000000}\n", "requests: {count: 2}\nreplicas: 1000000000\n"):
        path.write_text(text + "scheduler: sarathi\n" + steps)
        assert refused(lambda: read_configuration(path), "less than or equal to")
    assert refused(lambda: read_csv("/dev/zero"), "is not a regular file")


def test_no_cell_starts_a_formula(tmp_path: Path) -> None:
    from analysis.tables import write_csv

    safe = ["-1", "+1.5e-3", "-", "a=b", "- 4 cores", "+12 %", "-0.5 to 1.5"]
    risky = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "\t=1", "-A1", "+HYPERLINK(1)"]
    path = write_csv(pd.DataFrame({"name": safe + risky, "n": range(len(safe + risky))}), tmp_path / "t.csv")
    assert pd.read_csv(path)["name"].tolist() == safe + [f"'{cell}" for cell in risky]


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_what_is_written_keeps_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    from analysis.studies.cores.system.sealed import seal, unseal_file

    old = os.umask(umask)
    try:
        (tmp_path / "plain").write_bytes(b"secret")
        temporary = tmp_path / f".sealed.{os.getpid()}"
        temporary.symlink_to(tmp_path / "victim")
        seal(tmp_path / "plain", tmp_path / "sealed", bytes(32))
        unseal_file(tmp_path / "sealed", tmp_path / "again", bytes(32))
    finally:
        os.umask(old)
    assert (tmp_path / "again").read_bytes() == b"secret" and (tmp_path / "again").stat().st_mode & 0o777 == mode
    assert not (tmp_path / "victim").exists()  # a temporary file of a known name follows no link


def test_a_download_stops_at_the_announced_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.artifact.publishing.fetching import download

    class Endless:
        status = 200
        sent = 0

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *_: object) -> None: ...

        def read(self, size: int) -> bytes:
            Endless.sent += size
            return b"x" * size

    monkeypatch.setattr(download, "urlopen", lambda *_, **__: Endless())
    assert refused(lambda: download.download("http://host/file", tmp_path / "file", 10_000_000, "0" * 64), "more than the 10,000,000 bytes")
    assert list(tmp_path.iterdir()) == [] and Endless.sent < 20_000_000


def test_a_dataset_that_make_data_cannot_bring_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.studies import datasets

    monkeypatch.setenv("ANALYSIS_DATASETS", str(tmp_path))
    with pytest.raises(DatasetMissing, match="`make data` does not bring it"):
        datasets.load("panel/collectives")


def test_cells_of_any_length_are_numbers_or_refused(tmp_path: Path) -> None:
    from analysis.serving.requests import read_requests
    from analysis.tables import numeric

    assert numeric(pd.Series(["1", "9" * 400, "x", "", "-2.5"])).tolist()[:2] == [1.0, float("inf")]
    path = tmp_path / "r.csv"
    path.write_text(f"request_id,arrived_at,num_prefill_tokens,num_decode_tokens\n0,0,{'9' * 400},5\n")
    assert refused(lambda: read_requests(path), "num_prefill_tokens")


def test_levels_that_are_none(tmp_path: Path) -> None:
    from analysis.configs import read_yaml
    from analysis.hardware.systems import SystemFile

    path = tmp_path / "s.yaml"
    path.write_text("systems:\n  a:\n    device: h100\n    levels:\n")
    assert refused(lambda: read_yaml(path, SystemFile), r"s\.yaml:")


def test_long_numbers_in_files_of_kernel_cases() -> None:
    """pandas raises OverflowError at a whole number of 400 digits."""
    from analysis.kernels.cases import answers

    frame = pd.DataFrame({"op": "add", "device": "Tesla V100-PCIE-32GB", "B": ["2", "9" * 400, "many"], "H": "2"})
    assert answers(frame)["status"].tolist() == ["", "B must be a whole number", "B must be a whole number"]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("cycles", "1.0: [[]]", "expected a number"), ("max_singletons", "nan1", "expected a number"), ("iseq", "", "empty instruction")],
)
def test_tables_of_measured_blocks(tmp_path: Path, column: str, value: str, said: str) -> None:
    cells = {"arch": "a", "iseq": "add ; sub", "cycles": "1.5", "sum_singletons": "2", "max_singletons": "1"}
    damaged = {**cells, column: value}
    path = tmp_path / "blocks.csv"
    path.write_text("\n".join([",".join(cells), ",".join(cells.values()), ",".join(damaged.values())]) + "\n")
    with pytest.raises(InputError, match=said) as error:
        blocks.from_table(read_csv(path, required=blocks.REQUIRED), "a", path)
    assert error.value.line == 3


def test_measured_blocks_that_would_not_fit(tmp_path: Path) -> None:
    names = [f"i{number}" for number in range(5000)]
    frame = pd.DataFrame({"arch": "a", "iseq": names, "cycles": 1.0, "sum_singletons": 1.0, "max_singletons": 1.0})
    with pytest.raises(InputError, match="more than 20,000,000 counts"):
        blocks.from_table(frame, "a", tmp_path)


@pytest.mark.parametrize("changed", ["N: 9223372036854775807", "stride: 4611686018427387904"])
def test_a_layer_whose_counts_no_whole_number_holds(tmp_path: Path, changed: str) -> None:
    """`map` searched the factors of N for more than twenty seconds, with counts that had overflowed."""
    from analysis.accelerators.loopnest.layer import read_layer

    path = tmp_path / "l.yaml"
    path.write_text("{N: 1, C: 8, M: 16, P: 14, Q: 14, R: 3, S: 3, stride: 1}\n")
    assert read_layer(path).macs == 8 * 16 * 14 * 14 * 9
    path.write_text(path.read_text().replace(f"{changed.partition(':')[0]}: 1", changed, 1))
    assert refused(lambda: read_layer(path), r"l\.yaml: .*at most 2\^53")


def test_measured_blocks_of_no_core(tmp_path: Path) -> None:
    """An empty cell is a number to pandas, and became the key of the error."""
    frame = pd.DataFrame({"arch": [np.nan], "iseq": ["i"], "cycles": 1.0, "sum_singletons": 1.0, "max_singletons": 1.0})
    for core in dict.fromkeys(frame["arch"]):
        assert refused(lambda core=core: blocks.from_table(frame, core, tmp_path), "nan: no such core")


def test_an_infinite_figure_of_a_device() -> None:
    with pytest.raises(ValueError, match="finite number"):
        Quantity(value=float("inf"), source="x", low=1.0, high=float("inf"))


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b'{"max_num_seqs": 1' + b"0" * 5000 + b"}", b'{"model": NaN}'])
def test_engine_settings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meta.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_meta(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kv_cache": {"num_blocks": "COUNT"}}, "num_blocks: expected 1 to 1,000,000,000"),
        ({"engine_kwargs": {"gpu_memory_utilization": "COUNT"}}, "gpu_memory_utilization: "),
    ],
)
@pytest.mark.parametrize("count", ["1e400", "-1", "0"])
def test_engine_settings_beyond_reason(tmp_path: Path, given: dict[str, object], said: str, count: str) -> None:
    path = tmp_path / "meta.json"
    path.write_text(json.dumps({"model": "meta-llama/Llama-3.1-8B-Instruct", **given}).replace('"COUNT"', count))
    assert refused(lambda: read_meta(path), said)


@pytest.mark.parametrize("figure", ["clock: {value: 2505 MHz, source: rtx6000ada}", "tdp: 300 W", "memory_bandwidth: 960 GB/s"])
def test_a_figure_of_a_device_that_is_zero(tmp_path: Path, figure: str) -> None:
    from analysis.configs import read_yaml
    from analysis.hardware.own import MachineFile

    path = tmp_path / "d.yaml"
    text = (DATA / "hardware" / "devices" / "nvidia_ada.yaml").read_text()
    path.write_text(text)
    assert read_yaml(path, MachineFile).devices
    path.write_text(text.replace(figure, re.sub(r"\d+", "0", figure, count=1)))
    assert refused(lambda: read_yaml(path, MachineFile), f"{figure.partition(':')[0]}: expected more than 0")


def test_a_source_with_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    from analysis.artifact.mtap.evidence import Evidence
    from analysis.configs import read_yaml

    path = tmp_path / "e.yaml"
    text = sorted((DATA / "mtap" / "evidence").glob("*.yaml"))[0].read_text()
    path.write_text(re.sub(r"source: [^,}\n]+", f"source: data/{'9' * 5000}", text, count=1))
    assert refused(lambda: read_yaml(path, Evidence), "no such file")


def test_a_header_that_ends_in_the_middle_of_an_array(tmp_path: Path) -> None:
    """numpy gives a header that is no literal to Python's tokenizer, which has errors of its own."""
    from analysis.studies.cores.trace_files import read_trace

    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pc.npy", b"\x93NUMPY\x01\x00\x04\x00{(1\n" + b"\0" * 8)
    assert refused(lambda: read_trace(path), "not a complete .npz trace")


@pytest.mark.parametrize("caption", ["a <script>alert(1)</script>", "<!-- x -->", "<img src=x onerror=y>", "x < 3 and <b>", "</p>"])
def test_captions_write_no_html(caption: str) -> None:
    """A caption may quote what a file says; CommonMark would pass its tags through."""
    told = MarkdownIt().renderInline(without_tags(caption))
    assert "<" not in told
    assert html.unescape(told) == caption


def _factors_of(text: str) -> None:
    from analysis.accelerators.timeloop.files import read_mapped

    files = ROOT / "tests" / "accelerators" / "files"
    mapping = (files / "timeloop_reference_mapping.yaml").read_text().replace("M8 C1 R1", text)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(mapping)
        file.flush()
        read_mapped(files / "timeloop_eyeriss_v03.yaml", files / "timeloop_reference_layer.yaml", Path(file.name))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (_factors_of, "M" + "x" * 60_000),
        (lambda text: parse(text, "bytes"), "9" * 60_000 + " a b"),
        (lambda text: split_name(text), " " * 60_000 + "["),
        (lambda text: tables.to_csv_bytes(pd.DataFrame({"a": [text]})), "+" + "a" * 60_000),
        (lambda text: printed_names(f"A. One{text}B. Two"), " " * 60_000),
    ],
)
def test_long_texts_do_not_take_the_square_of_their_length(read: Callable[[str], object], text: str) -> None:
    """Found by `make fuzz`: 70,000 letters in the place of a factor took minutes of a regular expression."""
    began = time.process_time()
    with contextlib.suppress(ValueError):
        read(text)
    assert time.process_time() - began < 3
