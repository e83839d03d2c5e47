"""Which tools can be tried, how do their own instructions install and run them, and which cures are known?

A first program is what a tool's instructions give as the first prediction, quoted by address, with the answer printed as one line of JSON.
It runs in the tool's environment, never in ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.errors import InputError
from analysis.paths import ROOT
from analysis.studies.accelerators.peers.scalesim import CONFIG, HEADERS
from analysis.studies.accelerators.peers.zigzag import DESIGNS, DRIVER


@dataclass(frozen=True)
class Cure:
    """Something that the instructions do not say and that a tool turns out to need.

    Attributes:
        requirements: what pip installs, too.
        reason: why.
        source: where that is known from.
        files: files that it needs, too; first: the first prediction as it then has to be asked for, where that changes.
        python: minor version of another interpreter, with which everything is installed again.
    """

    requirements: tuple[str, ...]
    reason: str
    source: str
    files: Mapping[str, str] = field(default_factory=dict)
    first: str = ""
    python: str = ""

    @property
    def step(self) -> str:
        """What is done, in words."""
        if self.python:
            return f"everything again with Python {self.python}"
        return f"pip install {' '.join(self.requirements)}" if self.requirements else f"by hand: {self.reason}"


@dataclass(frozen=True)
class Trial:
    """One tool as its instructions install and run it.

    Attributes:
        tool: name as in the survey; name: of its files here; package: in the index.
        documented_install: the command of the instructions; requirements: what of it pip is given (the package, where empty).
        instructions: address of the instructions; prediction: address of the documented first prediction.
        first: Python program that makes the first prediction and prints it.
        files: other files it needs, by name.
        cures: tried in order where the first prediction fails.
        documented_value: the answer that the instructions print, where they do.
        predicts: what the first prediction is, in words.
    """

    tool: str
    name: str
    package: str
    documented_install: str
    instructions: str
    prediction: str
    predicts: str
    first: str
    requirements: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    cures: tuple[Cure, ...] = ()
    documented_value: float | None = None

    def arguments(self) -> tuple[str, ...]:
        """What pip is given."""
        return self.requirements or (self.package,)


def printed(program: str, quantity: str, unit: str) -> str:
    """A program that leaves its answer in `value`, with the line that prints it."""
    tail = f"import json\nprint(json.dumps({{'quantity': {quantity!r}, 'value': float(value), 'unit': {unit!r}}}))\n"
    return program.strip("\n") + "\n" + tail.replace("{{", "{").replace("}}", "}")


LAYER = {"B": 1, "K": 64, "C": 256, "OY": 56, "OX": 56, "FY": 1, "FX": 1}
SCALE_RUN = """
import csv, subprocess, sys
if subprocess.call([sys.executable, "-m", "scalesim.scale", "-c", "design.cfg", "-t", "layers.csv", "-p", "out"]):
    sys.exit(1)
with open("out/trial/COMPUTE_REPORT.csv") as stream:
    rows = list(csv.reader(stream, skipinitialspace=True))
value = dict(zip((name.strip() for name in rows[0]), rows[1]))["Total Cycles"]
"""


def scale_run(more: str) -> str:
    """The program that runs SCALE-Sim and reads its cycles, with more arguments of its command line."""
    return SCALE_RUN.replace('"-p", "out"', f'"-p", "out"{more}')


SCALE_LAYERS = f"{HEADERS[7]}\nlayer,14,14,3,3,16,16,1,\n"

CATALOGUE: tuple[Trial, ...] = (
    Trial(
        tool="nn-Meter",
        name="nn-meter",
        package="nn-meter",
        documented_install="pip install nn-meter",
        instructions="https://pypi.org/project/nn-meter/",
        prediction="https://github.com/microsoft/nn-Meter/blob/main/docs/usage.md",
        predicts="latency of a small convolution on a Cortex-A76",
        first=printed(
            """
from nn_meter import load_latency_predictor
predictor = load_latency_predictor("cortexA76cpu_tflite21", 1.0)
shape = [[1, 28, 28, 16]]
graph = {
    "input": {"attr": {"name": "input", "type": "Placeholder", "output_shape": shape, "attr": {}, "input_shape": []},
              "inbounds": [], "outbounds": ["conv"]},
    "conv": {"attr": {"name": "conv", "type": "Conv2D", "output_shape": shape, "input_shape": shape,
                      "attr": {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "weight_shape": [3, 3, 16, 16]}},
             "inbounds": ["input"], "outbounds": []},
}
value = predictor.predict(graph, model_type="nnmeter-ir")
""",
            "latency",
            "ms",
        ),
        cures=(
            Cure(
                ("setuptools<81",),
                "imports pkg_resources, which newer setuptools no longer have",
                "https://setuptools.pypa.io/en/latest/pkg_resources.html",
            ),
            Cure(
                ("scikit-learn==1.2.2", "numpy<2", "pandas<3"),
                "predictors pickled by scikit-learn 0.23.1",
                "https://github.com/microsoft/nn-Meter/issues/131",
            ),
        ),
    ),
    Trial(
        tool="SCALE-Sim v3",
        name="scalesim",
        package="scalesim",
        documented_install="pip install scalesim",
        instructions="https://pypi.org/project/scalesim/",
        prediction="https://github.com/scalesim-project/SCALE-Sim/blob/main/README.md",
        predicts="cycles of a 3 x 3 convolution on a 16 x 16 array",
        first=printed(
            SCALE_RUN,
            "cycles",
            "cycles",
        ),
        files={
            "design.cfg": CONFIG.format(rows=16, columns=16, dataflow="ws").replace("run_name = peer", "run_name = trial"),
            "layers.csv": SCALE_LAYERS,
        },
        cures=(
            Cure(
                (),
                "a layout file, which its instructions do not name and without which it stops with status 0",
                "https://github.com/scalesim-project/SCALE-Sim",
                {"layout.csv": "Layer,\n"},
                printed(scale_run(', "-l", "layout.csv"'), "cycles", "cycles"),
            ),
            Cure(
                ("numpy==1.26.4",),
                "int(max(...)) of an array fails with NumPy 2.4 and later",
                "https://github.com/scalesim-project/SCALE-Sim/issues/160",
            ),
        ),
    ),
    Trial(
        tool="ZigZag",
        name="zigzag",
        package="zigzag-dse",
        documented_install="pip install zigzag-dse",
        instructions="https://kuleuven-micas.github.io/zigzag/installation.html",
        prediction="https://kuleuven-micas.github.io/zigzag/getting-started.html",
        predicts="cycles of one ResNet-50 layer on the TPU-like design that it ships (whole networks take longer than the limit here)",
        first=printed(
            DRIVER + 'value = json.load(open("answer.json"))["latency_total2_cycles"]',
            "latency",
            "cycles",
        ),
        files={"case.json": json.dumps({"design": "tpu_like", "layer": LAYER, "stride": 1, "spatial": DESIGNS["tpu_like"]})},
        cures=(Cure(("six",), "imported but not declared", "https://pypi.org/project/zigzag-dse/"),),
    ),
    Trial(
        tool="Stream",
        name="stream",
        package="stream-dse",
        documented_install="pip install stream-dse",
        instructions="https://pypi.org/project/stream-dse/",
        prediction="https://github.com/KULeuven-MICAS/stream/blob/master/README.md",
        predicts="schedule of its own two-core test workload",
        first=printed(
            """
import os, sys, stream
sys.path.insert(0, os.path.dirname(stream.__file__))
os.makedirs("outputs", exist_ok=True)
from stream.api import get_hardware_performance_stream
answers = get_hardware_performance_stream(
    "inputs.testing.hardware.dual_testing_core_offchip", "inputs.testing.workload.testing_workload_for_2_cores",
    "inputs.testing.mapping.testing_mapping", 1, [("OY", "all")], "trial")
value = answers[0][0].latency
""",
            "latency",
            "cycles",
        ),
        cures=(
            Cure(
                ("zigzag-dse==2.5.2", "numpy<2", "pandas<3", "plotly"),
                "imports zigzag.classes, which zigzag-dse 3 no longer has, and plotly, which it does not declare",
                "https://pypi.org/project/stream-dse/",
            ),
        ),
    ),
    Trial(
        tool="AccelForge",
        name="accelforge",
        package="accelforge",
        documented_install="pip install accelforge",
        instructions="https://accelergy-project.github.io/accelforge/guide/guide.html",
        prediction="https://accelergy-project.github.io/accelforge/guide/guide.html",
        predicts="latency of three matrix products on its simple design",
        first=printed(
            """
import accelforge as af
spec = af.Spec.from_yaml(af.examples.arches.simple, af.examples.workloads.three_matmuls_annotated)
results = spec.map_workload_to_arch()
value = sum(results.latency()) if hasattr(results.latency(), "__iter__") else results.latency()
""",
            "latency",
            "s",
        ),
        cures=(
            Cure(
                (),
                "declares Python 3.8 or newer; packages that it requires are only for 3.12 or newer; its mapper calls Graphviz",
                "https://pypi.org/project/hwcomponents/",
                python="3.12",
            ),
        ),
    ),
    Trial(
        tool="AIConfigurator",
        name="aiconfigurator",
        package="aiconfigurator",
        documented_install="pip install aiconfigurator",
        instructions="https://pypi.org/project/aiconfigurator/",
        prediction="https://github.com/ai-dynamo/aiconfigurator/blob/main/README.md",
        predicts="throughput of Qwen3-32B on 32 H200, best configuration",
        first=printed(
            """
from aiconfigurator.cli import cli_default
result = cli_default(model_path="Qwen/Qwen3-32B-FP8", total_gpus=32, system="h200_sxm")
value = max(float(frame["tokens/s/gpu"].max()) for frame in result.best_configs.values() if len(frame))
""",
            "tokens/s/gpu",
            "1/s",
        ),
    ),
    Trial(
        tool="AISimulate",
        name="aisimulate",
        package="aisimulate",
        documented_install="pip install aisimulate",
        instructions="https://pypi.org/project/aisimulate/",
        prediction="https://pypi.org/project/aisimulate/",
        predicts="nothing: the file in the index only points to another index",
        first="import aisimulate\n",
    ),
    Trial(
        tool="GenZ",
        name="genz",
        package="genz-llm",
        documented_install="pip install genz-llm",
        instructions="https://pypi.org/project/genz-llm/",
        prediction="https://github.com/abhibambhaniya/GenZ-LLM-Analyzer/blob/main/README.md",
        predicts="prefill of Llama-2-7B, 4096 tokens, on an A100",
        first=printed(
            """
from GenZ import prefill_moddeling
value = prefill_moddeling(model="llama2_7b", batch_size=1, input_tokens=4096, system_name="A100_80GB_GPU", bits="bf16")["Latency"]
""",
            "prefill latency",
            "ms",
        ),
    ),
    Trial(
        tool="llm-analysis",
        name="llm-analysis",
        package="llm-analysis",
        documented_install="pip install llm-analysis",
        instructions="https://pypi.org/project/llm-analysis/",
        prediction="https://llm-analysis.readthedocs.io/en/latest/analysis.html",
        predicts="inference of OPT-1.3B on an A100, all arguments as they come",
        first=printed(
            """
from llm_analysis.analysis import infer
value = infer()["total_latency"]
""",
            "latency",
            "s",
        ),
    ),
    Trial(
        tool="MLSys-im",
        name="mlsysim",
        package="mlsysim",
        documented_install="pip install mlsysim",
        instructions="https://pypi.org/project/mlsysim/",
        prediction="https://pypi.org/project/mlsysim/",
        predicts="Llama-3-8B on an H100, batch 32",
        first=printed(
            """
import subprocess, os, sys
program = os.path.join(os.path.dirname(sys.executable), "mlsysim")
command = [program, "--output", "json", "eval", "Llama3_8B", "H100", "--batch-size", "32"]
import json
value = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["p_latency"]
""",
            "latency",
            "ms",
        ),
    ),
    Trial(
        tool="VIDUR",
        name="vidur",
        package="vidur",
        documented_install="pip install vidur",
        instructions="https://pypi.org/project/vidur/",
        prediction="https://pypi.org/project/vidur/",
        predicts="the default simulation",
        first=printed(
            """
import os, subprocess, sys, glob, csv
os.environ["WANDB_MODE"] = "disabled"
if subprocess.call([sys.executable, "-m", "vidur.main"]):
    sys.exit(1)
path = sorted(glob.glob("simulator_output/*/request_metrics.csv"))[-1]
rows = list(csv.DictReader(open(path)))
value = sum(float(row["request_e2e_time"]) for row in rows) / len(rows)
""",
            "mean end-to-end latency",
            "s",
        ),
    ),
    Trial(
        tool="Kavier",
        name="kavier",
        package="kavier",
        documented_install="pip install kavier",
        instructions="https://pypi.org/project/kavier/",
        prediction="https://pypi.org/project/kavier/",
        predicts="inference of the trace that comes with it",
        first=printed(
            """
import os, re, subprocess, sys
from importlib.resources import files
trace = files("kavier") / "sdk/inference/data/input/input_example.csv"
program = os.path.join(os.path.dirname(sys.executable), "kavier")
said = subprocess.run([program, "inference", "--trace", str(trace)], check=True, capture_output=True, text=True)
print(said.stdout)
value = re.search(r"Total time[^0-9]*([0-9.]+)", said.stdout).group(1)
""",
            "time",
            "s",
        ),
    ),
    Trial(
        tool="Alpa",
        name="alpa",
        package="alpa",
        documented_install="pip install alpa",
        instructions="https://alpa.ai/install.html",
        prediction="https://alpa.ai/install.html",
        predicts="nothing: it needs GPUs",
        first="import alpa\n",
    ),
    Trial(
        tool="this project",
        name="ours",
        package="",
        documented_install="make, of which the environment: pip install --require-hashes -r requirements.txt",
        requirements=("--require-hashes", "-r", str(ROOT / "requirements.txt")),
        instructions="README.md",
        prediction="README.md",
        predicts="decoding of Llama-3.1-70B on eight H100",
        first=printed(
            f"""
import os, re, subprocess, sys
subprocess.run(["git", "clone", "-q", "--depth", "1", {"file://" + str(ROOT)!r}, "clone"], check=True)
said = subprocess.run([sys.executable, "-m", "analysis", "predict", "one", "--model", "llama-3.1-70b", "--device", "h100", "--gpus", "8"],
                      check=True, capture_output=True, text=True, cwd="clone").stdout
print(said)
value = re.search(r"time per output token +([0-9.]+) ms", said).group(1)
""",
            "time per output token",
            "ms",
        ),
    ),
)


def find(name: str) -> Trial:
    """A trial by its name."""
    for trial in CATALOGUE:
        if trial.name == name:
            return trial
    raise InputError(f"expected one of {', '.join(trial.name for trial in CATALOGUE)}, got {name!r}", key="--only")
