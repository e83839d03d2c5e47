"""Fetching datasets: from a server on this machine, in the original layout."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from analysis.errors import InputError
from analysis.publishing.fetch import fetch, pipeweave_place, sources

ORIGINALS = {
    "dataset/collective/RTX 6000 Ada/all_reduce.csv": b"rank,size\n0,8\n",
    "e2e/vllm_comparison.csv": b"gpu\nA100\n",
    "pipetuning_test/moe_dse/tile_analysis/tile.csv": b"not converted\n",
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    for path, content in ORIGINALS.items():
        file = tmp_path / "www" / "owner" / "repo" / "c0ffee" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "www")))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()


def listing(tmp_path: Path, spoil: str = "") -> Path:
    rows = ["dataset,repository,commit,path,bytes,sha256"]
    for path, content in ORIGINALS.items():
        digest = hashlib.sha256(content + (b"x" if path == spoil else b"")).hexdigest()
        rows.append(f"pipeweave,owner/repo,c0ffee,{path},{len(content)},{digest}")
    file = tmp_path / "files.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def test_files_are_fetched_verified_and_placed(tmp_path: Path, server: str) -> None:
    target = tmp_path / "datasets"
    assert fetch(target=target, base=server, listing=listing(tmp_path)) == 2
    placed = target / "pipeweave" / "collective" / "RTX_6000_Ada_all_reduce.csv.gz"
    assert gzip.decompress(placed.read_bytes()) == b"rank,size\n0,8\n"
    assert (target / "pipeweave" / "e2e" / "vllm_comparison.csv").read_bytes() == b"gpu\nA100\n"


def test_a_wrong_digest_or_a_missing_file_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(InputError, match="digest differs"):
        fetch(target=tmp_path / "d", base=server, listing=listing(tmp_path, spoil="e2e/vllm_comparison.csv"))
    (tmp_path / "www" / "owner" / "repo" / "c0ffee" / "e2e" / "vllm_comparison.csv").unlink()
    with pytest.raises(InputError, match="cannot be fetched"):
        fetch(target=tmp_path / "e", base=server, listing=listing(tmp_path))
    with pytest.raises(InputError, match="no such dataset"):
        fetch(only=["nothing"], target=tmp_path / "f", base=server, listing=listing(tmp_path))


def test_the_committed_list_is_pinned() -> None:
    """Every file has a full commit and digest, and the collectives that the calibrated networks need are placed where the loader looks."""
    files = sources()
    assert all(len(file.commit) == 40 and len(file.sha256) == 64 and file.bytes > 0 for file in files)
    placed = {pipeweave_place(file.path) for file in files if file.dataset == "pipeweave"}
    assert {"collective/H100_all_reduce.csv.gz", "collective/A100_send_recv.csv.gz", "e2e/vllm_comparison.csv"} <= placed
