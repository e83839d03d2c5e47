"""A machine of one's own, as a file, in every command that asks for a device: a copy of a known one answers as that one does."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.hardware import devices, own, systems
from analysis.paths import EXAMPLES
from tests.golden import answer, kept

MINE = """
devices:
  {name}:
    vendor: NVIDIA
    kind: gpu
    architecture: hopper
    memory_type: HBM3
    peak: {{bf16: 500 TFLOP/s, fp16: 500 TFLOP/s, fp8: 1000 TFLOP/s, fp32: 30 TFLOP/s}}
    memory: 100 GB
    memory_bandwidth: 4 TB/s
    l2: 40 MiB
    sms: 100
    lanes_per_sm: 128
    clock: 1500 MHz
    tdp: 500 W
    links:
      nvlink: {{generation: 4, per_direction: 450 GB/s}}
"""


@pytest.fixture
def copy(tmp_path: Path) -> str:
    """An H100 and its usual machine under another name and from another source."""
    path = tmp_path / "copy.yaml"
    path.write_text(own.as_file(devices.load("h100")).replace("H100-SXM5-80GB", "Copy").replace("HGX-H100", "Pod"))
    return str(path)


@pytest.mark.parametrize("name", list(devices.all_devices()))
def test_a_device_written_as_a_file_is_that_device(tmp_path: Path, name: str) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(own.as_file(devices.load(name)))
    assert devices.load(str(path)) is devices.load(name)


POD = """
systems:
  {name}:
    device: {device}
    levels:
      - {{name: nvlink, topology: switch, size: {size}, per_direction: {speed} GB/s}}
      - {{name: network, topology: {topology}, size: 16, per_direction: 50 GB/s}}
"""


def test_every_kind_of_file(tmp_path: Path) -> None:
    """What a file's machine is called, whose kernels it has, and its links: copies, other links, other figures, several machines."""
    h100, links = own.as_file(devices.load("h100")), "nvlink: {generation: 4, per_direction: 450 GB/s}"
    sheet = MINE.format(name="Kept-1")
    files = {
        "copy": h100.replace("H100-SXM5-80GB", "Kept-2").replace("HGX-H100", "Kept-Pod-2"),
        "less memory": h100.replace("H100-SXM5-80GB", "Kept-3").replace("HGX-H100", "Kept-Pod-3").replace("memory: 8", "memory: 7"),
        "sheet": sheet,
        "again": sheet,
        "sheet, other links": sheet.replace("450", "225").replace("Kept-1", "Kept-4"),
        "no links": sheet.replace(links, "{}").replace("Kept-1", "Kept-5"),
        "of a known name": sheet.replace("Kept-1", "H100"),
        "another of the same name": sheet.replace("500 W", "400 W"),
        **{
            f"pod {k}": POD.format(name=f"Kept-Pod-{k}", device=device, size=size, speed=speed, topology=topology)
            for k, (device, size, speed, topology) in enumerate(
                (
                    ("H100", 8, 450, "switch"),
                    ("H100", 8, 449, "switch"),
                    ("H100", 4, 450, "switch"),
                    ("H100", 8, 450, "ring"),
                    ("nothing", 8, 1, "ring"),
                )
            )
        },
        "device and pod": MINE.format(name="Kept-6") + POD.format(name="Kept-Pod-6", device="Kept-6", size=8, speed=300, topology="switch"),
        "two devices": MINE.format(name="Kept-7") + MINE.format(name="Kept-8").replace("\ndevices:\n", ""),
        "none": "devices: {}\n",
    }
    found: dict[str, object] = {}

    def facts(reference: str) -> list[object]:
        one = devices.load(reference)
        machine = systems.of_device(one)
        levels = [[level.name, level.topology, level.size, level.bandwidth_bytes_per_s] for level in machine.levels]
        known = own.system(one.name) is None
        return [one.name, own.measured_as(one.name), known, known or own.named(one.name) is one, machine.title, levels]

    for name, text in files.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        found[name] = answer(lambda path=path: facts(str(path)), tmp_path)  # type: ignore[misc]
        found[f"{name}, all"] = answer(lambda path=path: own.read(path), tmp_path)  # type: ignore[misc]
    for which in ("Kept-8", "Kept-9", ""):
        found[f"#{which}"] = answer(lambda which=which: facts(f"{tmp_path / 'two devices.yaml'}#{which}"), tmp_path)  # type: ignore[misc]
    found["paths"] = [own.is_path(name) for name in ("a.yaml", "a.yml", " A.YAML#x", "a.yaml.txt", "H100", "#a.yaml")]
    kept("own_machines", found)


TABLES = {
    "predict training": "model,device,gpus,global_batch,sequence_length\nllama3-8b,{},16,32,8192\n",
    "predict batch": "hardware,devices,framework,model,input_tokens,output_tokens,batch_size\n{},1,vLLM,llama-2-7b,128,128,4\n",
    "predict serving": "backend,model_path,system,mode,tp_size,isl,osl,batch_size\nvllm,llama-3.1-8b,{},agg,2,256,64,4\n",
    "predict collective": "device,gpus,nodes,collective,size_bytes\n{},16,2,all_reduce,1e8\n",
    "kernels predict": "op,device,dtype,M,N,K\ngemm,{},bf16,4096,4096,4096\n",
    "predict recommend": "model,devices,engines,max_gpus,tpot_target_ms,input_tokens,output_tokens\nllama-3.1-8b,{},vllm,2,20,256,64\n",
}
ASKED = ("device", "devices", "hardware", "system")


def _said(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("command", TABLES)
def test_a_copy_answers_tables_as_the_device_does(capsys, tmp_path: Path, copy: str, command: str) -> None:
    path = tmp_path / "cases.csv"
    found = []
    for device in ("h100", copy):
        path.write_text(TABLES[command].format(device))
        answer = pd.read_csv(io.StringIO(_said(capsys, *command.split(), str(path))), keep_default_na=False)
        found.append(answer.drop(columns=[name for name in (*ASKED, "predicted_device") if name in answer]))
    pd.testing.assert_frame_equal(*found, check_exact=True)


@pytest.mark.parametrize("command", TABLES)
def test_a_row_names_the_file_of_its_machine_that_cannot_be(capsys, tmp_path: Path, command: str) -> None:
    """The table is in order, so that its own line would mislead."""
    (tmp_path / "bad.yaml").write_text("name: MyChip\npeak: {bf16: 500 TFLOP/s}\n")
    path = tmp_path / "cases.csv"
    path.write_text(TABLES[command].format(tmp_path / "bad.yaml"))
    capsys.readouterr()
    assert main([*command.split(), str(path)]) == 2
    said = "".join(capsys.readouterr())
    assert "bad.yaml:1: name: unknown key, expected one of devices systems" in said


def test_a_question_names_the_file_of_its_machine_that_cannot_be(capsys, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: MyChip\n")
    capsys.readouterr()
    assert main([*ONE, "--device", str(tmp_path / "bad.yaml")]) == 2
    assert "bad.yaml:1: name: unknown key" in capsys.readouterr().err


ONE = (
    "predict",
    "one",
    "--model",
    "llama-3.1-8b",
    "--gpus",
    "2",
    "--clients",
    "4",
    "--input-tokens",
    "256",
    "--output-tokens",
    "64",
    "--json",
)


def test_a_copy_answers_questions_as_the_device_does(capsys, tmp_path: Path, copy: str) -> None:
    assert _said(capsys, *ONE, "--device", copy) == _said(capsys, *ONE, "--device", "h100")
    program = ("hlo", "predict", str(EXAMPLES / "hlo" / "step.mlir"), "--device")
    assert _said(capsys, *program, copy) == _said(capsys, *program, "h100")
    for folder, name, key, command in (
        ("train", "train", "system: HGX-H100", "train"),
        ("serve", "simulate", "device: A100-SXM4-80GB", "serve simulate"),
    ):
        text = (EXAMPLES / folder / f"{name}.yaml").read_text()
        assert key in text
        found = []
        for device in ("HGX-H100" if folder == "train" else "h100", copy):
            config = tmp_path / f"{name}.yaml"
            config.write_text(text.replace(key, f"{key.partition(':')[0]}: {device}"))
            (tmp_path / "requests.csv").write_bytes((EXAMPLES / "serve" / "requests.csv").read_bytes())
            found.append(_said(capsys, *command.split(), str(config), "--json"))
        assert found[0] == found[1]


def test_another_machine_is_answered_from_its_data_sheet_and_says_so(capsys, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.format(name="Sheet-1"))
    mine, known = (json.loads(_said(capsys, *ONE, "--device", device)) for device in (str(path), "h100"))
    assert "Sheet-1" in mine["question"] and "kernel times: kernels of other GPUs" in "; ".join(mine["assumed"])
    assert mine["tpot_upper_ms"] / mine["tpot_lower_ms"] > known["tpot_upper_ms"] / known["tpot_lower_ms"]


def test_links_of_ones_own_keep_the_measured_kernels(tmp_path: Path) -> None:
    from analysis.kernels import gpus
    from analysis.networks.collective_time import collective_time
    from analysis.training.machines import machine_of

    path = tmp_path / "slow.yaml"
    path.write_text(
        "systems:\n  Slow-Pod:\n    device: H100\n    levels:\n"
        "      - {name: nvlink, topology: switch, size: 4, per_direction: 450 GB/s}\n"
        "      - {name: network, topology: switch, size: 16, per_direction: 12.5 GB/s}\n"
    )
    device = devices.load(str(path))
    assert device.name == gpus.name(str(path)) == "Slow-Pod" and gpus.load(str(path)).system == "h100_sxm"
    slow, usual = systems.of_device(device), systems.of_device(devices.load("h100"))
    assert collective_time("all_reduce", 1e9, 16, slow).seconds > 3 * collective_time("all_reduce", 1e9, 16, usual).seconds
    machine = machine_of(str(path))
    assert (machine.device, machine.domain, machine.network_bytes_per_s) == ("Slow-Pod", 4, 12.5e9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("Sheet-2", "H200"), "H200 is a device known here, with other figures"),
        (lambda text: text.replace("memory: 100 GB", "memorie: 100 GB"), r"mine.yaml:9: devices.Sheet-2.memorie"),
        (lambda text: text.replace("memory: 100 GB", "memory: 0 GB"), "memory: expected more than 0"),
        (lambda text: text + text.replace("devices:\n", "").replace("Sheet-2", "Sheet-3"), r"names 2 machines .*mine.yaml#Sheet-2"),
        (lambda text: "devices: {}\n", "names 0 machines"),
        (
            lambda text: "systems:\n  P:\n    device: H100\n    levels: [{name: a, topology: switch, size: 0, per_direction: 45 GB/s}]\n",
            r"mine.yaml:4: systems.P.levels.0.size: Input should be greater than or equal to 1 \(got 0\)",  # was answered
        ),
        (lambda text: "systems:\n  Pod:\n    device: Nothing\n    levels: []\n", "levels"),
    ],
)
def test_a_file_that_cannot_be(tmp_path: Path, change, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(change(MINE.format(name="Sheet-2")))
    with pytest.raises(InputError, match=said):
        devices.load(str(path))
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        devices.load(str(tmp_path / "nowhere.yaml"))
