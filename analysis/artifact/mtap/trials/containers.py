"""Container files that tools ship, built without root on their base images or on stand-ins: which step ends it, and what does each cost?"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.artifact.mtap.trials.running import FIRST_LIMIT_S, INSTALL_LIMIT_S, NETWORK, answer, scrub
from analysis.errors import InputError

STEP = re.compile(r"^(?:\[\d+/\d+\] )?STEP (\d+)/(\d+): (.*)$")
FAILED = re.compile(r"\berror\b|not found|no such|cannot|could not|unable|failed", re.I)
ENDING = re.compile(r"^(?:error: building at STEP|(?:error: )?exit status|time=|make: \*\*\*)|: exit status|exited with status", re.I)
ENGINE = "buildah"


@dataclass
class Build:
    """What an engine did: when each step began (s), which of how many it was, its words; the lines after that; its end and cost (s)."""

    begun: list[tuple[float, str, int, str]]
    last: list[str]
    status: int
    seconds: float
    cpu_s: float

    @property
    def why(self) -> str:
        """The last line that names an error and is not only the engine's report of an exit status."""
        return scrub(next((line for line in reversed(self.last) if FAILED.search(line) and not ENDING.search(line)), ""))


def base_images(text: str) -> list[str]:
    """The images that a container file starts from or copies from, in order, without the stages that it names itself."""
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)", text, re.M))
    text = re.sub(r"\$\{(\w+)\}", lambda found: arguments.get(found[1], found[0]), text)
    stages = set(re.findall(r"^FROM .*\sAS\s+(\S+)", text, re.M | re.I))
    named = re.findall(r"^(?:FROM (?:--platform=\S+ )?|COPY --from=)(\S+)", text, re.M | re.I)
    return [image for image in dict.fromkeys(named) if image not in stages and image != "scratch"]


def run_engine(arguments: list[str], limit_s: float = INSTALL_LIMIT_S) -> Build:
    """Run the engine, reading what it says line by line; past the limit (s) it is ended with status 124."""
    if shutil.which(ENGINE) is None:
        raise InputError("not on this machine: Debian's package buildah builds without root", key=ENGINE)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["timeout", "-k", "5", f"{limit_s:g}", ENGINE, *arguments]
    begun: list[tuple[float, str, int, str]] = []
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout or ():
            if found := STEP.match(line):
                begun.append((time.perf_counter() - start, found[1], int(found[2]), scrub(found[3])[:160]))
                last = []
            last = [*last[-199:], line.rstrip()]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Build(begun, last, process.returncode, time.perf_counter() - start, cpu_s)


def stand_in(text: str) -> str:
    """Make an image out of a root that mmdebstrap packed, under the name that container files know a base image by, from IMAGE=ROOT.tar."""
    image, _, packed = text.rpartition("=")
    if not image or not Path(packed).is_file():
        raise InputError(f"expected IMAGE=ROOT.tar with a file that is there, got {text!r}", key="--root")
    container = run_engine(["from", "scratch"]).last[-1]
    name = image if "." in image.split("/")[0] else f"localhost/{image}"
    for command in (["add", "-q", container, packed], ["commit", "-q", "--rm", container, name]):
        if (done := run_engine(command)).status:
            raise InputError(f"the engine could not make an image of it: {done.last[-1]}", path=packed)
    return Path(packed).stem


def attempt(tool: str, file: Path, roots: Sequence[str] = (), program: str = "") -> dict[str, pd.DataFrame]:
    """Build a container file, its folder as context, and ask the tool's first prediction inside.

    Args:
        roots: IMAGE=ROOT.tar for each base image that cannot be fetched; empty: the file as shipped.
        program: Python that prints the prediction, as a trial's first program does; empty: only the build.

    Returns:
        Tables: `containers` (one row) and `container_steps` (one row a step).
    """
    if not file.is_file():
        raise InputError("no such file", path=file)
    used, name = [stand_in(text) for text in roots], re.sub(r"\W+", "-", tool.lower()).strip("-")
    pull = "--pull-never" if roots else "--pull-always"
    chosen = ["--isolation", "chroot", "--network", "host", "--layers=false", pull, "-t", name, "-f", str(file)]
    build = run_engine(["bud", *chosen, str(file.parent)])
    ends = [begun for begun, *_ in build.begun[1:]] + [build.seconds]
    steps = [
        {"tool": tool, "step": int(number), "said": said, "seconds": round(end - begun, 1)}
        for (begun, number, _, said), end in zip(build.begun, ends, strict=True)
    ]
    blocked = NETWORK.search("\n".join(build.last))
    row: dict[str, Any] = {
        "tool": tool,
        "root": "stand-in" if roots else "as shipped",
        "base_image": "; ".join(base_images(file.read_text(encoding="utf-8"))),
        "base_used": "; ".join(used),
        "status": build.status,
        "seconds": round(build.seconds, 1),
        "cpu_s": round(build.cpu_s, 1),
        "step": len(build.begun),
        "steps": max((total for _, _, total, _ in build.begun), default=0),
        "stopped_at": build.begun[-1][3] if build.status and build.begun else "",
        "class": "" if not build.status else "limit" if build.status == 124 else "blocked" if blocked else "F1",
        "message": build.why if build.status else "",
        **({} if build.status else inside(name, program)),
    }
    return {"containers": pd.DataFrame([row]), "container_steps": pd.DataFrame(steps, columns=["tool", "step", "said", "seconds"])}


def inside(image: str, program: str) -> dict[str, Any]:
    """The size of an image (MB), and the first prediction that a program makes inside it."""
    container = run_engine(["from", "--pull-never", image]).last[-1]
    shell = ["run", "--isolation", "chroot", "--network", "host", container, "--"]
    sizes = run_engine([*shell, "du", "-smx", "/"]).last
    found: dict[str, Any] = {"size_mb": next((int(line.split()[0]) for line in sizes if re.match(r"\d+\s+/$", line)), 0)}
    if program:
        asked = run_engine([*shell, "python3", "-c", program], FIRST_LIMIT_S)
        got = answer("\n".join(asked.last))
        found |= {"first_prediction_s": round(asked.seconds, 1)}
        found |= {"value": got["value"], "unit": got["unit"]} if got else {"class": "F2", "message": asked.why}
    run_engine(["rm", container])
    return found
