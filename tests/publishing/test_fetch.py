"""make data: from a server on this machine, with small files in the original layouts."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from publishing.dataset_server import FileServer

from analysis.artifact.publishing.fetching import download as downloading
from analysis.artifact.publishing.fetching.convert import CONVERTERS, pipeweave_place
from analysis.artifact.publishing.fetching.download import download
from analysis.artifact.publishing.fetching.fetch import fetch, sources
from analysis.errors import InputError

COMMIT = "c0ffee"
NEUSIGHT = "scripts/asplos/data"
LAUNCH = "Kernel Name,Warps per SM,Blocks per SM,Grid x,Grid y,Grid z,Block x,Block y,Block z"
GEMM_ROW = "volta_sgemm_32x128_nn,153.6,19.2,4,1,384,256,1,1"
ONE, TWO = "INC_((REG:RW:G:64))", "NEG_((REG:RW:G:64))"


def experiments(rows: list[tuple[list[str], float, list[tuple[str, float]]]]) -> bytes:
    """PMEvo's layout: an ExperimentList with the architecture and one experiment a line."""
    found = []
    for iseq, cycles, others in rows:
        entry: dict[str, object] = {"kind": "Experiment", "iseq": iseq, "result": {"cycles": cycles}}
        if others:
            entry["other_results"] = [{"cycles": value, "id": name} for name, value in others]
        found.append(entry)
    return json.dumps({"kind": "ExperimentList", "arch": {"kind": "Architecture", "insns": [ONE, TWO]}, "exps": found}).encode()


ORIGINALS: dict[str, dict[str, bytes]] = {
    "pipeweave": {
        "dataset/collective/RTX 6000 Ada/all_reduce.csv": b"rank,size\n0,8\n",
        "e2e/vllm_comparison.csv": b"gpu\nA100\n",
        "pipetuning_test/moe_dse/tile_analysis/tile.csv": b"not converted\n",
    },
    "neusight": {
        f"{NEUSIGHT}/dataset/train/collect/bmm/p2.1.0/Tesla T4.csv": (
            f"OPName,Latency,Device,Torch Version,CUDNN Version,{LAUNCH},CUDA,CUDA Version,Kernels,B,M,N,K\n"
            f"bmm,0.1117247983813285,Tesla T4,p2.1.0,8902,{GEMM_ROW},cu121,12.1,[x],384,128,64,128\n"
        ).encode(),
        f"{NEUSIGHT}/dataset/test/bmm.csv": (
            f"OPName,Latency,Device,Torch Version,CUDNN Version,{LAUNCH},CUDA,B,M,N,K\n"
            f"bmm,2.5,NVIDIA L4,p2.1.0,8902,{'k' * 200},1,1,4,1,384,256,1,1,cu121,1,2,3,4\n"
        ).encode(),
        f"{NEUSIGHT}/dataset/train/collect/relu/p2.1.0/Tesla T4.csv": (
            f"OPName,Latency,Device,Torch Version,CUDNN Version,{LAUNCH},CUDA,B,H,large\n"
            f"relu,0.5,Tesla T4,p2.1.0,8902,{GEMM_ROW},cu121,10,20,True\n"
        ).encode(),
        f"{NEUSIGHT}/dataset_amd/train/ln.csv": (
            b"OPName,Latency,Device,Kernel Name,Grid x,Grid y,Grid z,Block x,Block y,Block z,B,H\n"
            b"ln,0.25,AMD Instinct MI100,layer_norm,1,1,1,64,4,1,30,40\n"
        ),
        f"{NEUSIGHT}/dataset/test/vec.csv": b"not converted\n",
        f"{NEUSIGHT}/device_configs/Tesla_T4.json": b'{"Device": "Tesla T4", "Num_Sm": 40}',
    },
    "pmevo": {
        "vm_setup/data/ZEN/exps_eval_small_annotated.json": experiments([([ONE, TWO], 1.25, [("llvm-mca", 2.5)])]),
        "vm_setup/data/ZEN/exps_singletons.json": experiments([([ONE], 0.25, []), ([TWO], 1.0, [])]),
        "vm_setup/data/SKL/exps_eval_small_annotated.json": experiments([([TWO, TWO], 2.0, [("IACA", 1.5), ("Ithemal", 3.0)])]),
        "vm_setup/data/SKL/exps_singletons.json": experiments([([ONE], 0.5, []), ([TWO], 0.75, [])]),
    },
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setattr(downloading.time, "sleep", lambda _: None)
    server = FileServer()
    for dataset, files in ORIGINALS.items():
        for path, content in files.items():
            server.files[f"owner/{dataset}/{COMMIT}/{path}"] = content
    with server.running():
        yield server


def listing(tmp_path: Path, spoil: str = "", longer: str = "") -> Path:
    """A list of the small files, with the wrong digest for `spoil` and the wrong size for `longer`."""
    rows = ["dataset,repository,commit,path,bytes,sha256"]
    for dataset, files in ORIGINALS.items():
        for path, content in files.items():
            digest = hashlib.sha256(content + (b"x" if path == spoil else b"")).hexdigest()
            rows.append(f"{dataset},owner/{dataset},{COMMIT},{path},{len(content) + (path == longer)},{digest}")
    file = tmp_path / "files.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def table(target: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(target / name)


def test_every_dataset_is_fetched_verified_and_converted(tmp_path: Path, server: FileServer) -> None:
    """Columns and their order: the tables of the dataset folder's README."""
    target = tmp_path / "datasets"
    assert fetch(target=target, base=server.address, listing=listing(tmp_path)) == 2 + 4 + 1
    placed = target / "pipeweave" / "collective" / "RTX_6000_Ada_all_reduce.csv.gz"
    assert gzip.decompress(placed.read_bytes()) == b"rank,size\n0,8\n"

    bmm = table(target, "neusight/bmm_nvidia.csv.gz")
    launch = ["kernel", "warps_per_sm", "blocks_per_sm", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
    assert list(bmm) == ["op", "latency_ms", "device", "torch", "cudnn", *launch, "cuda", "B", "M", "N", "K", "split", "vendor", "group"]
    assert list(bmm["split"]) == ["train", "test"] and list(bmm["latency_ms"]) == [0.1117247983813285, 2.5]
    assert bmm.loc[1, "kernel"] == "k" * 120 and list(bmm.loc[0, ["B", "M", "N", "K"]]) == [384, 128, 64, 128]
    assert table(target, "neusight/elem_nvidia.csv.gz").loc[0, "op"] == "relu"
    assert list(table(target, "neusight/ln_amd.csv.gz").loc[0, ["vendor", "split", "H"]]) == ["amd", "train", 40]
    assert table(target, "neusight/devices.csv").loc[0, "file"] == "Tesla_T4.json"

    blocks = table(target, "pmevo/insn_multiset_cycles.csv.gz").astype(object)
    assert list(blocks["arch"]) == ["SKL", "ZEN"] and blocks.loc[1, "iseq"] == f"{ONE} ; {TWO}"
    assert blocks.loc[0, "sum_singletons"] == 1.5 and blocks.loc[1, "max_singletons"] == 1.0
    assert blocks.loc[0, "pred_IACA"] == 1.5 and blocks.loc[1, "pred_llvm-mca"] == 2.5 and pd.isna(blocks.loc[1, "pred_IACA"])


def test_what_is_there_and_right_is_not_fetched_again(tmp_path: Path, server: FileServer) -> None:
    files, target = listing(tmp_path), tmp_path / "d"
    fetch(only=["pmevo"], target=target, base=server.address, listing=files)
    before = (target / "pmevo" / "insn_multiset_cycles.csv.gz").read_bytes()
    asked = len(server.requests)
    fetch(only=["pmevo"], target=target, base=server.address, listing=files)
    assert len(server.requests) == asked
    assert (target / "pmevo" / "insn_multiset_cycles.csv.gz").read_bytes() == before


@pytest.mark.parametrize("resumes", [True, False])
def test_a_broken_connection_is_resumed(resumes: bool, tmp_path: Path, server: FileServer) -> None:
    path, content = "owner/big", bytes(range(256)) * 2000
    server.files[path], server.cut[path], server.ranges = content, 100_000, resumes
    server.busy[path] = 1
    target = tmp_path / "big"
    assert download(f"{server.address}/{path}", target, len(content), hashlib.sha256(content).hexdigest())
    assert target.read_bytes() == content and not target.with_name("big.part").exists()
    assert [wanted for _, wanted in server.requests] == [None, None, "bytes=100000-"]


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, server: FileServer) -> None:
    path, content = "owner/big", b"0123456789" * 10
    server.files[path] = content
    (tmp_path / "big.part").write_bytes(content[:70])
    download(f"{server.address}/{path}", tmp_path / "big", len(content), hashlib.sha256(content).hexdigest())
    assert (tmp_path / "big").read_bytes() == content and server.requests == [(path, "bytes=70-")]


def test_a_wrong_part_is_thrown_away_so_that_the_next_run_is_right(tmp_path: Path, server: FileServer) -> None:
    path, content = "owner/big", b"0123456789" * 10
    server.files[path] = content
    (tmp_path / "big.part").write_bytes(b"x" * 70)
    url, digest = f"{server.address}/{path}", hashlib.sha256(content).hexdigest()
    with pytest.raises(InputError, match="digest differs"):
        download(url, tmp_path / "big", len(content), digest)
    assert download(url, tmp_path / "big", len(content), digest)


def test_a_corrupted_a_truncated_and_a_missing_file_are_refused(tmp_path: Path, server: FileServer) -> None:
    path = "e2e/vllm_comparison.csv"
    with pytest.raises(InputError, match=f"{path}: digest differs"):
        fetch(only=["pipeweave"], target=tmp_path / "d", base=server.address, listing=listing(tmp_path, spoil=path))
    with pytest.raises(InputError, match="9 bytes arrived; expected 10"):
        fetch(only=["pipeweave"], target=tmp_path / "e", base=server.address, listing=listing(tmp_path, longer=path))
    del server.files[f"owner/pipeweave/{COMMIT}/{path}"]
    with pytest.raises(InputError, match="cannot be fetched: 404"):
        fetch(only=["pipeweave"], target=tmp_path / "f", base=server.address, listing=listing(tmp_path))
    with pytest.raises(InputError, match="no such dataset; there are: neusight, pipeweave, pmevo"):
        fetch(only=["nothing"], target=tmp_path / "g", base=server.address, listing=listing(tmp_path))
    for folder in "defg":
        assert not list((tmp_path / folder / "pipeweave").glob("**/*")), "a table was written in spite of the error"


def test_no_network_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading.time, "sleep", lambda _: None)
    with pytest.raises(InputError, match=r"cannot be fetched: .*refused; what arrived is kept, run again to go on"):
        fetch(only=["pmevo"], target=tmp_path / "d", base="http://127.0.0.1:9", listing=listing(tmp_path))


@pytest.mark.parametrize(
    ("dataset", "path", "content", "message"),
    [
        ("neusight", f"{NEUSIGHT}/dataset/test/bmm.csv", b"OPName,Latency\nbmm,1\n", "device, kernel, grid_x.*missing column"),
        ("neusight", f"{NEUSIGHT}/device_configs/Tesla_T4.json", b"[]", "Device: is not a device file"),
        ("pmevo", "vm_setup/data/ZEN/exps_singletons.json", b'{"exps": [{"iseq": []}]}', "lacks 'result'"),
        ("pmevo", "vm_setup/data/ZEN/exps_singletons.json", b'{"exps": []}', "was not measured by itself"),
    ],
)
def test_a_layout_that_is_not_known_is_refused_and_old_tables_stay(
    dataset: str, path: str, content: bytes, message: str, tmp_path: Path, server: FileServer
) -> None:
    target = tmp_path / "d"
    fetch(only=[dataset], target=target, base=server.address, listing=listing(tmp_path))
    before = {file: file.read_bytes() for file in (target / dataset).glob("*")}
    file = tmp_path / "spoilt"
    file.write_bytes(content)
    originals = {name: target / ".originals" / dataset / name for name in ORIGINALS[dataset] if CONVERTERS[dataset].needed(name)}
    with pytest.raises(InputError, match=message):
        list(CONVERTERS[dataset].tables(originals | {path: file}))
    assert before == {file: file.read_bytes() for file in (target / dataset).glob("*")}


def test_the_committed_list_is_pinned() -> None:
    """Every file has a full commit and digest, and the tables that the studies load come out of it."""
    files = sources()
    assert all(len(file.commit) == 40 and len(file.sha256) == 64 and file.bytes > 0 for file in files)
    placed = {pipeweave_place(file.path) for file in files if file.dataset == "pipeweave"}
    assert {"collective/H100_all_reduce.csv.gz", "collective/A100_send_recv.csv.gz", "e2e/vllm_comparison.csv"} <= placed
    counts = {name: sum(file.dataset == name and CONVERTERS[name].needed(file.path) for file in files) for name in CONVERTERS}
    # HELP: 27 devices in each of two search spaces, and their architectures; PMEvo: two lists for each of three cores;
    # NeuSight: 16 operators on 5 GPUs, 5 test files (conv has none), 3 of AMD, 13 device files
    assert counts["pmevo"] == 3 * 2 and counts["neusight"] == 16 * 5 + 5 + 3 + 13
