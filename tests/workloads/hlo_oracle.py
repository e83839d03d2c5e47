"""XLA's own cost analysis of a program, for comparison with ours. (A helper of the tests: it uses jaxlib's private calls.)"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from jaxlib import _jax

from analysis.workloads.graph import Module
from analysis.workloads.hlo.child import read
from analysis.workloads.hlo.reader import graph


def xla_cost(text: str) -> dict[str, float]:
    """Flops, bytes and transcendentals by xla/service/hlo_cost_analysis.cc of the pinned jaxlib, before any optimisation."""
    computation = _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    found = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, computation.get_hlo_module())
    return {
        "flops": found.get("flops") or 0.0,
        "bytes": found.get("bytes accessed") or 0.0,
        "transcendentals": found.get("transcendentals") or 0.0,
    }


def our_module(text: str | bytes) -> Module:
    """Our graph, read in this process."""
    record = read(text.encode() if isinstance(text, str) else text, None)
    assert "error" not in record, record
    return graph(record, "program")


def our_cost(text: str, *, loops_once: bool = True) -> dict[str, float]:
    """Our costs; XLA counts the body of a loop once."""
    module = our_module(text)
    keys = ("flops", "bytes", "transcendentals")
    return {key: sum(getattr(operator.work if loops_once else operator, key) for operator in module.operators) for key in keys}


def lowered_text(function: Any, *arguments: Any) -> str:
    """StableHLO of a JAX function at these shapes."""
    return str(jax.jit(function).lower(*arguments).as_text())
