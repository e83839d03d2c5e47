"""What does it take to add an accelerator and a workload that a tool does not know? The same for every tool, in its own environment.

The accelerator has 500 TFLOP/s in 16 bits, 64 GB at 2 TB/s and links of 300 GB/s; for tools of spatial arrays it is an array of 24 x 24
(576 multipliers where they are counted; 16 x 16 for ZigZag, whose sizes must divide those of the layer). The workload is
a transformer of 20 layers, 2560 wide; for those tools a product of 96 x 160 x 224.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis.artifact.mtap.trials.catalogue import LAYER, SCALE_LAYERS, find, printed, scale_run
from analysis.artifact.mtap.trials.running import answer, scrub
from analysis.studies.accelerators.peers.environments import run
from analysis.studies.accelerators.peers.scalesim import CONFIG, HEADERS
from analysis.studies.accelerators.peers.zigzag import DRIVER


@dataclass(frozen=True)
class Exercise:
    """One addition to one tool.

    Attributes:
        name: of its trial and environment.
        adds: device or workload.
        program: Python that describes it and asks for a prediction; `lines` of it are the description.
        lines: lines that describe what is added, of the program and of files (count).
        way: config, standard, custom or code: how it is added.
        files: other files, by name.
    """

    name: str
    adds: str
    way: str
    lines: int
    program: str
    files: dict[str, str] = field(default_factory=dict)


def _said(program: str, unit: str) -> str:
    return printed(program, "time", unit)


ARRAY = """
arch:
  nodes:
  - !Memory
    name: MainMemory
    size: inf
    leak_power: 0
    area: 0
    tensors: {keep: ~Intermediates, may_keep: All}
    actions:
    - {name: read, energy: 100, throughput: 64}
    - {name: write, energy: 100, throughput: 64}
  - !Memory
    name: GlobalBuffer
    size: 1048576
    leak_power: 0
    area: 0
    tensors: {keep: ~MainMemory, may_keep: All}
    actions:
    - {name: read, energy: 1, throughput: 1024}
    - {name: write, energy: 1, throughput: 1024}
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions:
    - {name: compute, energy: 1, throughput: 576}
"""

EXERCISES: tuple[Exercise, ...] = (
    Exercise(
        "genz",
        "device",
        "config",
        1,
        _said(
            """
from GenZ import prefill_moddeling
device = {"Flops": 500, "Memory_size": 64, "Memory_BW": 2000, "ICN": 300, "real_values": True}
value = prefill_moddeling(model="llama2_7b", batch_size=1, input_tokens=4096, system_name=device, bits="bf16")["Latency"]
""",
            "ms",
        ),
    ),
    Exercise(
        "genz",
        "workload",
        "custom",
        2,
        _said(
            """
from GenZ import ModelConfig, prefill_moddeling
model = ModelConfig(model="ours", hidden_size=2560, intermediate_size=6912, num_decoder_layers=20, num_attention_heads=20,
                    num_key_value_heads=20, vocab_size=32000)
value = prefill_moddeling(model=model, batch_size=1, input_tokens=4096, system_name="A100_80GB_GPU", bits="bf16")["Latency"]
""",
            "ms",
        ),
    ),
    Exercise(
        "llm-analysis",
        "device",
        "config",
        3,
        _said(
            """
from llm_analysis.analysis import LLMAnalysis, ParallelismConfig
from llm_analysis.config import GPUConfig, get_dtype_config_by_name, get_model_config_by_name
device = GPUConfig(name="ours", mem_per_GPU_in_GB=64, hbm_bandwidth_in_GB_per_sec=2000, intra_node_bandwidth_in_GB_per_sec=300,
                   intra_node_min_message_latency=8e-6, peak_fp16_TFLOPS=500, peak_i8_TFLOPS=1000, peak_i4_TFLOPS=2000,
                   inter_node_bandwidth_in_GB_per_sec=50)
analysis = LLMAnalysis(get_model_config_by_name("facebook_opt-1.3b"), device, get_dtype_config_by_name("w16a16e16"), ParallelismConfig())
value = analysis.inference(batch_size_per_gpu=1, seq_len=512, num_tokens_to_generate=32)["total_latency"]
""",
            "s",
        ),
    ),
    Exercise(
        "llm-analysis",
        "workload",
        "custom",
        8,
        _said(
            """
from llm_analysis.analysis import infer
value = infer(model_name="model.json")["total_latency"]
""",
            "s",
        ),
        {
            "model.json": '{"name": "ours", "num_layers": 20, "n_head": 20, "hidden_dim": 2560, "vocab_size": 32000, "max_seq_len": 4096, '
            '"ffn_embed_dim": 10240, "model_type": "llama"}'
        },
    ),
    Exercise(
        "mlsysim",
        "device",
        "config",
        4,
        _said(
            """
import mlsysim
from mlsysim.engine.evaluation import SystemEvaluator
from mlsysim.core.units import Q_
known = mlsysim.Hardware.Cloud.H100
compute = known.compute.model_copy(update={"peak_flops": Q_("500 TFLOPs/s"), "precision_flops": {"fp16": Q_("500 TFLOPs/s")}})
memory = known.memory.model_copy(update={"capacity": Q_("64 GB"), "bandwidth": Q_("2 TB/s")})
device = known.model_copy(update={"name": "ours", "compute": compute, "memory": memory})
found = SystemEvaluator.evaluate(scenario_name="ours", model_obj=mlsysim.Models.Language.Llama3_8B, hardware_obj=device, batch_size=32,
                                 precision="fp16", efficiency=0.45)
value = found.performance.metrics["latency"]
""",
            "ms",
        ),
    ),
    Exercise(
        "mlsysim",
        "workload",
        "custom",
        2,
        _said(
            """
import mlsysim
from mlsysim.core.units import Q_
from mlsysim.engine.evaluation import SystemEvaluator
known = mlsysim.Models.Language.Llama3_8B
model = known.model_copy(update={"name": "ours", "layers": 20, "hidden_dim": 2560, "heads": 20, "parameters": Q_("1.7e9 count")})
found = SystemEvaluator.evaluate(scenario_name="ours", model_obj=model, hardware_obj=mlsysim.Hardware.Cloud.H100, batch_size=32,
                                 precision="fp16", efficiency=0.45)
value = found.performance.metrics["latency"]
""",
            "ms",
        ),
    ),
    Exercise(
        "scalesim",
        "device",
        "config",
        3,
        _said(scale_run(', "-l", "layout.csv"'), "cycles"),
        {
            "design.cfg": CONFIG.format(rows=24, columns=24, dataflow="ws").replace("run_name = peer", "run_name = trial"),
            "layers.csv": SCALE_LAYERS,
            "layout.csv": "Layer,\n",
        },
    ),
    Exercise(
        "scalesim",
        "workload",
        "custom",
        2,
        _said(scale_run(', "-l", "layout.csv", "-i", "gemm"'), "cycles"),
        {
            "design.cfg": CONFIG.format(rows=16, columns=16, dataflow="ws").replace("run_name = peer", "run_name = trial"),
            "layers.csv": f"{HEADERS[3]}\nlayer,96,160,224,\n",
            "layout.csv": "Layer,\n",
        },
    ),
    Exercise(
        "zigzag",
        "device",
        "config",
        2,
        _said(
            """
import yaml
from importlib.resources import files
device = yaml.safe_load((files("zigzag") / "inputs/hardware/tpu_like.yaml").read_text())
device["name"], device["operational_array"]["sizes"] = "ours", [16, 16]
yaml.safe_dump(device, open("device.yaml", "w"), sort_keys=False)
"""
            + DRIVER.replace('design = str(files("zigzag") / "inputs" / "hardware" / (case["design"] + ".yaml"))', 'design = "device.yaml"')
            + 'value = json.load(open("answer.json"))["latency_total2_cycles"]',
            "cycles",
        ),
        {"case.json": json.dumps({"design": "ours", "layer": LAYER, "stride": 1, "spatial": {"D1": ["K, 16"], "D2": ["C, 16"]}})},
    ),
    Exercise(
        "zigzag",
        "workload",
        "standard",
        6,
        _said(
            """
import logging, onnx, yaml
from onnx import TensorProto, helper
from importlib.resources import files
from zigzag.api import get_hardware_performance_zigzag
logging.disable(logging.CRITICAL)
a = helper.make_tensor_value_info("a", TensorProto.FLOAT, [96, 224])
b = helper.make_tensor_value_info("b", TensorProto.FLOAT, [224, 160])
c = helper.make_tensor_value_info("c", TensorProto.FLOAT, [96, 160])
node = helper.make_node("MatMul", ["a", "b"], ["c"], name="product")
onnx.save(helper.make_model(helper.make_graph([node], "ours", [a, b], [c])), "ours.onnx")
links = {"O": "O", "W": "I2", "I": "I1"}
yaml.safe_dump([{"name": "default", "memory_operand_links": links}], open("mapping.yaml", "w"))
energy, value, found = get_hardware_performance_zigzag(
    "ours.onnx", str(files("zigzag") / "inputs/hardware/tpu_like.yaml"), "mapping.yaml",
    opt="latency", dump_folder="out", loma_show_progress_bar=False)
""",
            "cycles",
        ),
    ),
    Exercise(
        "accelforge",
        "device",
        "config",
        24,
        _said(
            """
import accelforge as af
results = af.Spec.from_yaml("device.yaml", af.examples.workloads.three_matmuls_annotated).map_workload_to_arch(print_progress=False)
value = float(results.latency())
""",
            "s",
        ),
        {"device.yaml": ARRAY},
    ),
    Exercise(
        "accelforge",
        "workload",
        "custom",
        10,
        _said(
            """
import accelforge as af
results = af.Spec.from_yaml(af.examples.arches.simple, "workload.yaml").map_workload_to_arch(print_progress=False)
value = float(results.latency())
""",
            "s",
        ),
        {
            "workload.yaml": """
workload:
  rank_sizes: {M: 96, N: 160, K: 224}
  bits_per_value: {All: 8}
  einsums:
  - name: Product
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: [k, n]}
    - {name: C, projection: [m, n], output: true}
renames: {}
"""
        },
    ),
)


def do(exercise: Exercise, folder: Path) -> dict[str, object]:
    """Run one exercise in the tool's environment, which a trial has made.

    Returns:
        One row: tool, adds, way, lines, seconds, cpu_s, worked, value, unit, said.
    """
    home, tool = folder.resolve() / "environments" / exercise.name, find(exercise.name).tool
    place = folder.resolve() / "runs" / f"{exercise.name}-{exercise.adds}"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in {"program.py": exercise.program, **exercise.files}.items():
        (place / name).write_text(text, encoding="utf-8")
    output = place / "said.txt"
    step = run([str(home / "bin" / "python"), "program.py"], tool, exercise.adds, place, 300, output)
    got = answer(output.read_text(encoding="utf-8", errors="replace"))
    worked = step.status == 0 and got is not None and got["value"] > 0
    return {
        "tool": tool,
        "adds": exercise.adds,
        "way": exercise.way,
        "lines": exercise.lines,
        "cpu_s": round(step.cpu_s, 1),
        "worked": worked,
        "value": float(got["value"]) if worked and got else None,
        "unit": got["unit"] if worked and got else "",
        "said": "" if worked else scrub(step.message),
    }


def do_all(folder: Path) -> pd.DataFrame:
    """Every exercise whose tool has an environment."""
    there = [e for e in EXERCISES if (folder / "environments" / e.name / "bin" / "python").exists()]
    return pd.DataFrame([do(exercise, folder) for exercise in there])
