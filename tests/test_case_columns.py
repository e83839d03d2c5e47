"""Columns of files of cases: what a command does not read is refused where it could be meant, and carried through and listed elsewhere."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT, run_here

from analysis.case_columns import COMMANDS, TABLES, USERS_OWN, carried, distance, nearest, read_as, reads
from analysis.errors import InputError
from analysis.paths import DATA, EXAMPLES
from analysis.studies import datasets
from tests.golden import answer, kept

ALL = (*COMMANDS, *TABLES)
EXAMPLE = {
    "predict training": "predict/training.csv",
    "predict batch": "predict/batch.csv",
    "predict serving": "predict/serving.csv",
    "predict recommend": "predict/recommend.csv",
    "collectives": "collectives/cases.csv",
    "systolic": "systolic/cases.csv",
    "kernels predict": "kernels/cases.csv",
    "replay": "replay/nodes.csv",
    "measured score": "measured/predictions.csv",
    "blocks evaluate": "blocks/blocks.csv",
}


def header(path: Path) -> list[str]:
    return list(pd.read_csv(path, nrows=0).columns)


@pytest.mark.parametrize(
    ("one", "other", "steps"), [("a", "a", 0), ("devcie", "device", 1), ("paralel", "parallel", 1), ("isl", "gpus", 3)]
)
def test_distance(one: str, other: str, steps: int) -> None:
    """Insertions, deletions, changes and swaps of neighbours, as Damerau counted them; beyond two it need not be exact."""
    assert min(distance(one, other), 3) == steps == min(distance(other, one), 3)


@pytest.mark.parametrize("command", EXAMPLE)
def test_examples_are_read_with_the_users_own_columns_and_no_others(command: str) -> None:
    names = header(EXAMPLES / EXAMPLE[command])
    own = ["id", "note", "measured_step_s", "my remark", "ticket"]
    assert [name for name in carried([*names, *own], command) if name not in USERS_OWN] == ["measured_step_s", "my remark", "ticket"]


@pytest.mark.parametrize("command", ALL)
def test_every_misspelling_of_a_column_is_refused_with_its_name(command: str) -> None:
    """Each name of at least four letters with a letter left out, doubled, or swapped with the next."""
    columns = reads(command)
    names = [name for name in columns.names if name not in columns.aliases.values()] + list(dict.fromkeys(columns.aliases.values()))
    tried = 0
    for name in names:
        for at in range(1, len(name) - 1) if len(name) > 3 else ():
            for wrong in (
                name[:at] + name[at + 1 :],
                name[:at] + name[at] + name[at:],
                name[:at] + name[at + 1] + name[at] + name[at + 2 :],
            ):
                if columns.read_as(wrong) or wrong in USERS_OWN:
                    continue
                given = [own for own in names if own != name]
                with pytest.raises(InputError, match="did you mean") as caught:
                    carried([*given, wrong], command, "cases.csv")
                assert (caught.value.path, caught.value.line, caught.value.key) == ("cases.csv", 1, wrong)
                tried += 1
    assert tried >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_column_of_another_command_is_refused(command: str) -> None:
    own = reads(command)
    plain = {"".join(letter for letter in name.lower() if letter.isalnum()) for name in own.known()}
    for other in COMMANDS:
        for name in reads(other).names:
            if "".join(letter for letter in name.lower() if letter.isalnum()) in plain or name in (*USERS_OWN, *own.carried):
                continue
            with pytest.raises(InputError) as caught:
                carried([*own.names, name], command, "cases.csv")
            assert caught.value.key == name and (
                any(said in str(caught.value) for said in ("did you mean", "read", "calls it", "says the same as the column"))
            )


@pytest.mark.parametrize(
    ("column", "called"),
    [("tensor_paralel", "tensor_parallel"), ("batch_size", "global_batch"), ("clients", "global_batch"), ("isl", "not read by")],
)
def test_what_a_refused_column_is_called_here(column: str, called: str) -> None:
    with pytest.raises(InputError, match=called):
        carried(["model", "gpus", column], "predict training")
    assert nearest("note", ("mode", "isl")) == "" == nearest("id", ("isl", "tp"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["model\tgpus\tdevice"], "separated by tabs"),
        (["model;gpus;device"], "separated by semicolons"),
        (["first", "second"], "has none of the columns"),
        (["model", "device", "GPU", "gpus"], "says the same as the column device"),
    ],
)
def test_headers_that_are_none(given: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        carried(given, "predict training", "c.csv")
    assert str(caught.value).startswith("c.csv:1: ")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("predict training", "llm_foundry/mpt_training"),
        ("predict training", "vtrain/multi_node"),
        ("predict training", "vtrain/single_node"),
        ("predict training", "megatron_bridge/pretraining"),
        ("predict training", "panel/training"),
        ("predict batch", "llm_inference_bench/results"),
        ("predict batch", "panel/batch"),
        ("kernels predict", "neusight/ln_nvidia"),
    ],
)
def test_tables_of_others_are_read_as_they_are(command: str, name: str) -> None:
    if not datasets.available(name):
        pytest.skip(f"{name} is not here: make data")
    assert len(header(datasets.find(name))) > len(carried(header(datasets.find(name)), command))


def test_recorded_tables_are_read_as_they_are() -> None:
    assert "silicon_ttft_ms" in carried(header(DATA / "measured_suite" / "serving_points.csv.gz"), "predict serving")
    assert "sweep" in carried(header(DATA / "recorded" / "astra-sim" / "collectives.csv"), "collectives")
    for path in (DATA / "recorded" / "vidur").glob("requests_*.csv"):
        assert "ttft" in carried(header(path), "serve")


def test_the_command_refuses_carries_and_exits_2_where_nothing_was_answered(tmp_path: Path) -> None:
    text = (EXAMPLES / "predict" / "batch.csv").read_text().splitlines()
    cases, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    cases.write_text("\n".join([text[0] + ",ticket", *(f"{line},7" for line in text[1:])]) + "\n")
    done = run_here("predict", "batch", str(cases), "--out", str(out))
    assert done.returncode == 0 and done.stderr == "carried through, not read: ticket\n"
    assert header(out)[: len(text[0].split(","))] == text[0].split(",") and (pd.read_csv(out)["ticket"] == 7).all()
    cases.write_text("\n".join([text[0].replace("engine", "engne"), *text[1:]]))
    out.unlink()
    done = run_here("predict", "batch", str(cases), "--out", str(out))
    assert done.returncode == 2 and done.stderr.startswith(f"error: {cases}:1: engne: no such column; did you mean engine?")
    assert not out.exists() and len(list(tmp_path.iterdir())) == 1
    cases.write_text("\n".join([text[0], *(line.replace("vLLM", "nothing") for line in text[1:])]))
    done = run_here("predict", "batch", str(cases), "--out", str(out))
    assert done.returncode == 2 and "0 cases answered, 2 not" in done.stdout and pd.read_csv(out)["status"].notna().all()


def test_an_answered_collective_counts_whatever_status_its_file_has(tmp_path: Path) -> None:
    """Recorded tables have a `status` (ok); the commands that add `reason` counted it as their own."""
    path = tmp_path / "cases.csv"
    pd.read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", nrows=2, dtype=str).to_csv(path, index=False)
    done = run_here("collectives", str(path), "--out", str(tmp_path / "out.csv"))
    assert done.returncode == 0 and "2 cases answered, 0 not" in done.stdout


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    example = str(EXAMPLES / "predict" / "training.csv")
    for arguments in (("loop.csv", "--out", "out.csv"), (example, "--out", "loop.csv")):
        done = subprocess.run(
            [sys.executable, "-m", "analysis", "predict", "training", *arguments],
            cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 2 and done.stderr.startswith("error: loop.csv: "), done.stderr


def test_an_ended_process_leaves_no_temporary_file(tmp_path: Path) -> None:
    """SIGTERM is what Slurm, docker and timeout send."""
    row = "llama3-8b,h100,8,8192,128\n"
    (tmp_path / "cases.csv").write_text("model,device,gpus,sequence_length,global_batch\n" + row * 500_000)
    command = [sys.executable, "-m", "analysis", "predict", "training", "cases.csv", "--out", "out.csv"]
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, stdout=quiet, stderr=quiet)
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(tmp_path.glob(".out.csv*")):
        time.sleep(0.1)
    assert list(tmp_path.glob(".out.csv*")) and running.poll() is None
    running.send_signal(signal.SIGTERM)
    running.wait(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM and [path.name for path in tmp_path.iterdir()] == ["cases.csv"]


ASKED = [
    "id",
    "note",
    "measured_x",
    "device",
    "devices",
    "gpu",
    "gpus",
    "model",
    "models",
    "model_path",
    "tp",
    "tp_size",
    "tensor_parallel",
    "pp",
    "dp",
    "batch",
    "clients",
    "batch_size",
    "concurrency",
    "isl",
    "osl",
    "input_tokens",
    "backend",
    "engine",
    "framework",
    "program",
    "precision",
    "dtype",
    "zero",
    "sharding",
    "fsdp",
    "op",
    "opp",
    "M",
    "N",
    "K",
    "bytes",
    "sizes",
    "size_bytes",
    "collective",
    "nodes",
    "seq_len",
    "sequence_length",
    "sequence_lenth",
    "kv_dtype",
    "kv_precision",
    "arival",
    "arrival",
    "version",
    "layer",
    "x",
    "y",
    "xx",
    "tensor_paralel",
    "price",
    "budget",
    "MODEL",
    "Device",
    "date",
    "prefill_tp_size",
    "decode_tensor_parallel",
    "moe_ep_size",
    "ep",
    "checkpointing",
    "recompute",
    "ffn",
    "heads",
    "vocab",
    "colour",
    "rows",
    "array_rows",
    "scenario",
]


def test_every_column_by_every_command() -> None:
    """Carried, read as another, or refused in which words."""
    found: dict[str, dict[str, object]] = {}
    for command in COMMANDS:
        columns = reads(command)
        base = [*columns.required] or [columns.names[0]]
        found[command] = {"ours": {name: columns.ours(name) for name in columns.names}}
        for name in ASKED:
            header = base if name in base else [*base, name]
            found[command][name] = answer(lambda header=header, command=command: [carried(header, command), read_as(header, command)])  # type: ignore[misc]
    kept("columns", found)


def test_the_nearest_name_by_hand() -> None:
    """Two letters off in names of six and more, one in three to five, none in two: a swap of neighbours is one."""
    assert [nearest(name, ("gpus", "device", "tp")) for name in ("gpuz", "gpzz", "dveice", "dvicce", "dvcc", "tq", "gpu", "gpuss")] == [
        "gpus",
        "",
        "device",
        "device",
        "",
        "",
        "gpus",
        "gpus",
    ]
    assert [
        distance(*pair) for pair in (("ab", "ba"), ("abc", "abcdef"), ("abc", "abcde"), ("abcd", "badc"), ("", "ab"), ("kitten", "sitting"))
    ] == [1, 3, 2, 2, 2, 3]
