"""The only door to jaxlib's MLIR bindings (private, pinned): bytes in, a module of operations as XLA would import them out.

It runs in the child process that `analysis.workloads.hlo` starts, never in the caller's.
"""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

BYTECODE = b"ML\xefR"
# What XLA runs before its own import (xla/pjrt/mlir_to_hlo.cc): CHLO and complex functions written out, dead and repeated code dropped.
_STEPS = (
    "builtin.module(func.func(chlo-legalize-to-high-level-mhlo,chlo-legalize-to-stablehlo,stablehlo-complex-math-expander,"
    "mhlo-sink-constants-to-control-flow),stablehlo-legalize-to-hlo,canonicalize)"
)
_registered = False


class ParseFailed(ValueError):
    """The text or bytecode is not a program; `line` is where, 0 if not known."""

    def __init__(self, message: str, line: int = 0) -> None:
        self.line = line
        super().__init__(message)


def context() -> Any:
    """A context that knows the dialects of JAX programs and keeps operators of others as they are."""
    global _registered
    if not _registered:
        mhlo.register_mhlo_passes()
        stablehlo.register_stablehlo_passes()
        _registered = True
    made = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    for register in (sdy.register_dialect, mhlo.register_mhlo_dialect, chlo.register_dialect, stablehlo.register_dialect):
        register(made)
    made.allow_unregistered_dialects = True
    made.enable_multithreading(False)
    return made


def _failure(error: Exception) -> ParseFailed:
    text = str(error)
    diagnostics = getattr(error, "error_diagnostics", None) or []
    message, line = "", 0
    if diagnostics:
        message = diagnostics[0].message
        where = re.search(r":(\d+):\d+", str(diagnostics[0].location))
        line = int(where.group(1)) if where else 0
    if not message:
        found = re.search(r'error: (?:"[^"]*":(\d+):\d+: |[^\n:]*:(\d+):\d+: )?(?:error: )?([^\n]*)', text)
        message = found.group(3) if found else text.strip().splitlines()[-1] if text.strip() else type(error).__name__
        line = int(found.group(1) or found.group(2) or 0) if found else 0
    return ParseFailed(" ".join(message.split())[:300], line)


def parse(content: bytes, made: Any) -> Any:
    """Parse text, bytecode or a portable artifact.

    Raises:
        ParseFailed: it is none of these, or does not verify.
    """
    with made:
        if content.startswith(BYTECODE) and b"StableHLO_v" in content[:64]:
            try:
                return stablehlo.deserialize_portable_artifact(made, content)
            except Exception as error:
                raise _failure(error) from None
        try:
            module = ir.Module.parse(content)
        except Exception as error:
            raise _failure(error) from None
        if _uses(module, "vhlo"):
            try:
                passmanager.PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(module.operation)
            except Exception as error:
                raise _failure(error) from None
        return module


def _uses(module: Any, dialect: str) -> bool:
    return any(operation.operation.name.startswith(dialect + ".") for operation in module.body.operations)


def simplify(module: Any, made: Any) -> bool:
    """Run XLA's import steps on the module in place; whether they could be run. When not, the module is spoilt: parse it anew.

    Args:
        module: a parsed module whose program is public.
    """
    with made:
        try:
            manager = passmanager.PassManager.parse(_STEPS)
            manager.enable_verifier(False)
            manager.run(module.operation)
        except Exception:
            return False
        return True


def refine(module: Any, made: Any) -> bool:
    """Work out dynamic shapes from the static ones of the arguments, in place; whether it could be done."""
    with made:
        try:
            passmanager.PassManager.parse(
                "builtin.module(stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes)"
            ).run(module.operation)
        except Exception:
            return False
        return True


def module_name(module: Any) -> str:
    """The module's name, empty if it has none."""
    attributes = module.operation.attributes
    return str(ir.StringAttr(attributes["sym_name"]).value) if "sym_name" in attributes else ""


def publish(module: Any, entry: str, made: Any) -> None:
    """Make a function public, so that no step takes it for unused."""
    with made:
        for operation in module.body.operations:
            inner = operation.operation
            if (
                inner.name == "func.func"
                and ir.StringAttr(inner.attributes["sym_name"]).value == entry
                and "sym_visibility" in inner.attributes
            ):
                del inner.attributes["sym_visibility"]
