"""Container files that tools ship, built without root on their base images or on stand-ins: which step ends it, and what does each cost?"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
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
    """What an engine said while it built: when each step began, and its lines after that."""

    begun: list[tuple[float, int, int, str]]
    last: list[str]
    status: int
    seconds: float
    cpu_s: float


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
    process = subprocess.Popen(
        [ENGINE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        os.killpg(process.pid, 9)

    timer = threading.Timer(limit_s, end)
    timer.start()
    begun: list[tuple[float, int, int, str]] = []
    last: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        if found := STEP.match(line):
            begun.append((time.perf_counter() - start, int(found[1]), int(found[2]), found[3].strip()))
            last = []
        last = [*last[-199:], line.rstrip()]
    status = process.wait()
    timer.cancel()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Build(begun, last, 124 if late.is_set() else status, time.perf_counter() - start, cpu_s)


def _why(build: Build) -> str:
    """The last line that names an error and is not only the engine's report of an exit status."""
    return scrub(next((line for line in reversed(build.last) if FAILED.search(line) and not ENDING.search(line)), ""))


def stand_in_of(text: str) -> tuple[str, Path]:
    """The base image and the packed root that stands in for it, from IMAGE=ROOT.tar; both and the file must be there."""
    image, _, packed = text.rpartition("=")
    if not image or not Path(packed).is_file():
        raise InputError(f"expected IMAGE=ROOT.tar with a file that is there, got {text!r}", key="--root")
    return image, Path(packed)


def stand_in(image: str, root: Path) -> None:
    """Make an image out of a root that mmdebstrap packed, under the name that container files know the base image by."""
    name = image if "." in image.split("/")[0] else f"localhost/{image}"
    container = run_engine(["from", "scratch"]).last[-1]
    for command in (["add", "-q", container, str(root)], ["commit", "-q", "--rm", container, name]):
        done = run_engine(command)
        if done.status:
            raise InputError(f"the engine could not make an image of it: {done.last[-1]}", path=root)


def attempt(
    tool: str, file: Path, roots: Mapping[str, Path], program: str = "", limit_s: float = INSTALL_LIMIT_S
) -> dict[str, pd.DataFrame]:
    """Build a container file, its folder as context, and ask the tool's first prediction inside.

    Args:
        roots: a packed root for each base image that cannot be fetched; empty: the file as shipped.
        program: Python that prints the prediction, as a trial's first program does; empty: only the build.

    Returns:
        Tables: `containers` (one row) and `container_steps` (one row a step, s).
    """
    if not file.is_file():
        raise InputError("no such file", path=file)
    for image, root in roots.items():
        stand_in(image, root)
    name = re.sub(r"\W+", "-", tool.lower()).strip("-")
    build = run_engine(
        ["bud", "--isolation", "chroot", "--network", "host", "--layers=false", "--pull-never" if roots else "--pull-always", "-t", name]
        + ["-f", str(file), str(file.parent)],
        limit_s,
    )
    ends = [begun for begun, *_ in build.begun[1:]] + [build.seconds]
    steps = pd.DataFrame(
        [
            {"tool": tool, "step": i + 1, "said": scrub(said)[:160], "seconds": round(end - begun, 1)}
            for i, ((begun, _, _, said), end) in enumerate(zip(build.begun, ends, strict=True))
        ],
        columns=["tool", "step", "said", "seconds"],
    )
    text = "\n".join(build.last)
    row: dict[str, Any] = {
        "tool": tool,
        "root": "stand-in" if roots else "as shipped",
        "base_image": "; ".join(base_images(file.read_text(encoding="utf-8"))),
        "base_used": "; ".join(root.stem for root in roots.values()),
        "status": build.status,
        "seconds": round(build.seconds, 1),
        "cpu_s": round(build.cpu_s, 1),
        "step": len(build.begun),
        "steps": max((total for _, _, total, _ in build.begun), default=0),
        "stopped_at": scrub(build.begun[-1][3])[:160] if build.status and build.begun else "",
        "class": "" if not build.status else "limit" if build.status == 124 else "blocked" if NETWORK.search(text) else "F1",
        "message": _why(build) if build.status else "",
    }
    if not build.status:
        row |= inside(name, program)
    return {"containers": pd.DataFrame([row]), "container_steps": steps}


def inside(image: str, program: str) -> dict[str, Any]:
    """The size of an image, and the first prediction that a program makes inside it."""
    container = run_engine(["from", "--pull-never", image]).last[-1]
    mounted = run_engine(["run", "--isolation", "chroot", container, "--", "du", "-smx", "/"]).last
    found: dict[str, Any] = {"size_mb": next((int(line.split()[0]) for line in mounted if re.match(r"\d+\s+/$", line)), 0)}
    if program:
        shell = ["run", "--isolation", "chroot", "--network", "host", container, "--"]
        asked = run_engine([*shell, "python3", "-c", program], FIRST_LIMIT_S)
        got = answer("\n".join(asked.last))
        found |= {
            "first_prediction_s": round(asked.seconds, 1),
            "message": "" if got else _why(asked),
            "class": "" if got else "F2",
        }
        found |= {key: got[key] for key in ("value", "unit")} if got else {}
    run_engine(["rm", container])
    return found
