"""Signed models, sampling, low-priority inference, telemetry: what must be refused is refused before a byte of it is used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import load
from analysis.errors import InputError
from analysis.studies.cores.programs import program_path
from analysis.studies.cores.system import repository
from analysis.studies.cores.system.driver import Configuration, configuration_for, sampled_epochs, schedule
from analysis.studies.cores.system.epoch_signatures import sequence_signature
from analysis.studies.cores.system.repository import (
    MANIFEST,
    MODEL,
    SIGNATURE,
    accepted_version,
    fetch,
    publish,
    update_available,
    versions,
)
from analysis.studies.cores.system.telemetry import Record, aggregate, export

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for version in (1, 2, 3):
        publish(folder, "8w", version, "8-wide", {"weights": np.full(4, version, np.float32)}, KEY)
    return folder


def assert_refused(shop: Path, store: Path, monkeypatch: pytest.MonkeyPatch, message: str, version: int | None = None) -> None:
    def never(data: bytes) -> None:
        raise AssertionError("a refused model was parsed")

    monkeypatch.setattr(repository, "load_arrays", never)
    before = accepted_version(store, "8w")
    with pytest.raises(InputError, match=message) as caught:
        fetch(shop, "8w", PUBLIC, store, version)
    assert "\n" not in str(caught.value)
    assert accepted_version(store, "8w") == before


def test_the_newest_signed_model_is_accepted_and_remembered(shop: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    model = fetch(shop, "8w", PUBLIC, store, 2)
    assert model.manifest.version == 2 and model.arrays["weights"].tolist() == [2, 2, 2, 2]
    assert update_available(shop, "8w", store) == 3
    assert fetch(shop, "8w", PUBLIC, store).manifest.version == 3
    assert update_available(shop, "8w", store) is None
    assert fetch(shop, "8w", PUBLIC, store).manifest.version == 3  # the same version again is no rollback


def test_a_flipped_byte_is_refused(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shop / "8w" / "3" / MODEL
    good = path.read_bytes()
    for place in (0, len(good) // 2, len(good) - 1):
        changed = bytearray(good)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        assert_refused(shop, tmp_path / "store", monkeypatch, "not the one that was signed")
    path.write_bytes(good[:-1])
    assert_refused(shop, tmp_path / "store", monkeypatch, "not the one that was signed")
    path.unlink()
    assert_refused(shop, tmp_path / "store", monkeypatch, "the model is missing")


def test_a_changed_or_unsigned_manifest_is_refused(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, store = shop / "8w" / "3", tmp_path / "store"
    content = json.loads((folder / MANIFEST).read_text())
    data = b"other"
    content |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    (folder / MODEL).write_bytes(data)
    (folder / MANIFEST).write_text(json.dumps(content))
    assert_refused(shop, store, monkeypatch, "not the designer's")
    (folder / SIGNATURE).write_text("zz")
    assert_refused(shop, store, monkeypatch, "not the designer's")
    (folder / SIGNATURE).write_text(Ed25519PrivateKey.generate().sign((folder / MANIFEST).read_bytes()).hex())
    assert_refused(shop, store, monkeypatch, "not the designer's")
    (folder / SIGNATURE).unlink()
    assert_refused(shop, store, monkeypatch, "unsigned model")


def test_an_older_or_misplaced_version_is_refused(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    fetch(shop, "8w", PUBLIC, store)
    for name in (MANIFEST, SIGNATURE, MODEL):  # version 1, genuinely signed, offered as the newest
        (shop / "8w" / "3" / name).write_bytes((shop / "8w" / "1" / name).read_bytes())
    assert_refused(shop, store, monkeypatch, "signed for 8w 1")
    assert_refused(shop, store, monkeypatch, "version 2 is older than 3", version=2)
    with pytest.raises(InputError, match="no version 9; there are"):
        fetch(shop, "8w", PUBLIC, store, 9)
    with pytest.raises(InputError, match="no version is published"):
        fetch(shop, "nothing", PUBLIC, store)
    with pytest.raises(InputError, match="not a model's name"):
        fetch(shop, "../8w", PUBLIC, store)


def test_a_damaged_store_is_told_and_trusts_nothing(shop: Path, tmp_path: Path) -> None:
    """Who cannot read what was accepted before must not accept an older model for the newest."""
    store = tmp_path / "store"
    store.mkdir()
    for content in (b"", b"three", b"\xff\xfe", b"-1", b"3.0"):
        (store / "8w.version").write_bytes(content)
        with pytest.raises(InputError, match="expected a version number"):
            fetch(shop, "8w", PUBLIC, store, 1)
        assert (store / "8w.version").read_bytes() == content
    (store / "8w.version").unlink()
    (store / "8w.version").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        fetch(shop, "8w", PUBLIC, store)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        fetch(shop, "8w", PUBLIC, tmp_path / "file")


def test_versions_never_change(shop: Path) -> None:
    assert versions(shop, "8w") == [1, 2, 3]
    with pytest.raises(InputError, match="published already"):
        publish(shop, "8w", 3, "8-wide", {"weights": np.zeros(1)}, KEY)
    with pytest.raises(InputError, match="expected 1 or more"):
        publish(shop, "8w", 0, "8-wide", {"weights": np.zeros(1)}, KEY)


def test_the_papers_sampling_rate() -> None:
    """Section 4.2: 25 ms an epoch at 0.1 % on 3,000 MIPS is one epoch in 0.75 million."""
    assert configuration_for(0.001, 3e9, 0.025).sample_every == 750_000
    with pytest.raises(InputError, match="overhead"):
        configuration_for(0, 3e9, 0.025)
    with pytest.raises(InputError, match="offset: expected 0 to 4, got 5"):
        Configuration(sample_every=5, offset=5)


def test_the_sample_is_every_so_manyeth_epoch() -> None:
    machine = load(read_elf(program_path("nbody")))
    configuration = Configuration(sample_every=4, offset=1)
    taken = {number: sequence_signature(trace) for number, trace in sampled_epochs(machine, configuration, 1_000_000)}
    assert list(taken) == [1, 5, 9]
    everything = Configuration(sample_every=1)
    whole = [sequence_signature(trace) for _, trace in sampled_epochs(load(read_elf(program_path("nbody"))), everything, 1_000_000)]
    assert all(whole[number] == signature for number, signature in taken.items())


def test_inference_waits_for_others_and_drops_what_finds_no_room() -> None:
    """By hand: three places, 2 s each, free from 10 s on; arrivals at 1, 2, 3 wait, those at 4 and 5 find it full, 13 enters."""
    result = schedule([1, 2, 3, 4, 5, 13], 2.0, Configuration(buffer_epochs=3), others_busy_until_s=10)
    assert result.started_s[:3] == (10, 12, 14) and result.started_s[5] == 16
    assert np.isnan(result.started_s[3:5]).all() and result.dropped == 2
    assert result.busy_share == pytest.approx(8 / 18)


def _records() -> list[Record]:
    return [
        Record("8w", 3, "a" * 64, 100.0),
        Record("8w", 3, "a" * 64, 300.0),
        Record("8w", 3, "b" * 64, 50.0),
        Record("lsq", 1, "a" * 64, 90.0),
    ]


def test_telemetry_is_summed_opt_in_and_says_nothing_else() -> None:
    groups = aggregate(_records())
    assert [(group.model, group.epochs, group.predicted_cycles) for group in groups] == [
        ("8w", 2, 400.0),
        ("8w", 1, 50.0),
        ("lsq", 1, 90.0),
    ]
    assert [group.signature[0] for group in aggregate(_records(), minimum_epochs=2)] == ["a"]

    refused = InMemoryMetricReader()
    assert export(groups, refused, consent=False) == 0
    assert refused.get_metrics_data() is None
    reader = InMemoryMetricReader()
    assert export(groups, reader, consent=True) == 3
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    assert dict(resource.resource.attributes) == {"service.name": "cores"}
    points = {metric.name: metric.data.data_points for metric in resource.scope_metrics[0].metrics}
    assert set(points) == {"cores.epochs", "cores.predicted_cycles"}
    for point in (*points["cores.epochs"], *points["cores.predicted_cycles"]):
        assert set(point.attributes) == {"model", "model.version", "epoch.signature"}
    assert sum(point.value for point in points["cores.predicted_cycles"]) == 540.0
    assert sum(point.value for point in points["cores.epochs"]) == 4


def test_bad_records_are_told() -> None:
    with pytest.raises(InputError, match="signature: expected 64 hexadecimal digits"):
        Record("8w", 1, "alice", 1.0)
    with pytest.raises(InputError, match="expected cycles, got nan"):
        Record("8w", 1, "a" * 64, float("nan"))
