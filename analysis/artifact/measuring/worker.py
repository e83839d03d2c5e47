"""One device in a process of its own: reads requests, one JSON line each, and answers each with one JSON line.

    python -m analysis.artifact.measuring.worker jax-1t-fp32 1      (device, cores)

Requests: {"operator": [kind, size, variant], "budget_s": s}; {"model": name, "arguments": {...}, "budget_s": s}; or
{"peak": what, "budget_s": s}; with "clock": "cpu" the process's own CPU time is measured, which others on the machine hardly disturb.
An answer holds the timing, or {"unsupported": why}, also when the runtime
itself refuses, for want of memory or of a kernel. The first line written is {"ready": facts}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def pin(cores: tuple[int, ...]) -> None:
    """Keep this process and the threads it will start on some cores; before any library sizes its thread pool."""
    os.sched_setaffinity(0, cores)


def _runtime(device: Any) -> Any:
    if device.runtime == "jax":
        from analysis.artifact.measuring.runtimes.jax_runtime import JaxRuntime

        return JaxRuntime(device.dtype)
    if device.runtime == "onnxruntime":
        from analysis.artifact.measuring.runtimes.onnx_runtime import OnnxRuntime

        return OnnxRuntime(device.threads)
    from analysis.artifact.measuring.runtimes import numpy_runtime

    return numpy_runtime


def serve(device_name: str, cores: tuple[int, ...]) -> None:
    """Answer requests until the input ends."""
    pin(cores)
    from analysis.artifact.measuring.devices import parse
    from analysis.artifact.measuring.graphs import BUILDERS
    from analysis.artifact.measuring.operators import MeasuredOperator, Unsupported
    from analysis.artifact.measuring.timing import Control, measure

    device = parse(device_name)
    runtime = _runtime(device)
    failures = getattr(runtime, "FAILURES", ())
    control = Control()
    control.measure()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a library that prints must not garble the answers
    answers.write(json.dumps({"ready": runtime.facts()}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if "operator" in request:
                kind, size, variant = request["operator"]
                run = runtime.prepare(MeasuredOperator(kind, tuple(size), variant))
            elif "model" in request:
                run = runtime.prepare_model(BUILDERS[request["model"]](**request["arguments"]))
            else:
                from analysis.artifact.measuring.peaks import prepare_peak

                run = prepare_peak(request["peak"], device.threads)
            clock = time.process_time if request.get("clock") == "cpu" else time.perf_counter
            answer.update(measure(run, request["budget_s"], clock).row())
            answer["control_arithmetic_s"], answer["control_copy_s"] = control.measure()
        except Unsupported as reason:
            answer = {"unsupported": str(reason)}
        except failures as error:
            answer = {"unsupported": f"{device.runtime}: {str(error).splitlines()[0][:200]}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    serve(sys.argv[1], tuple(int(core) for core in sys.argv[2].split(",")))
