"""The only use of jaxlib's MLIR bindings (private, pinned): from bytes to a module of operations as XLA would import them.

It runs in the child process that `analysis.workloads.hlo.reader` starts, never in the caller's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlir, _mlirHlo, _sdy, _stablehlo

from analysis.workloads.hlo.cost import of_which

ir: Any = _mlir.ir
passmanager: Any = _mlir.passmanager

BYTECODE = b"ML\xefR"
_CHECK = re.compile(
    rb"(check\.expect_\w+)([^\n]*?(?:dense<[^:]*?>)?[^\n:]*?):\s*((?:tensor<[^\n]*>)(?:,\s*tensor<[^\n]*>)*)"
    rb"[ \t]*(?=\n|$|func\.return|return|\})"
)
_QUANTISED = re.compile(rb"!quant\.uniform<")
# What is the same on quantised elements as on the integers that store them, but for the scales: products, and moving them about.
_ON_QUANTISED = of_which("integers")
QUANTISED_NOTE = (
    "quantised elements: a product counts as the product of the integers that store them; zero points and rescaling are not counted"
)
IMPORT = "stablehlo-legalize-to-hlo,func.func(canonicalize{region-simplify=disabled})"
"""The last of XLA's steps, which rewrite operators."""
_TIDY = "canonicalize{region-simplify=disabled enable-patterns=none}"
_registered = False


@dataclass(frozen=True)
class Unread:
    """An attribute that the bindings cannot read, a constant of complex numbers; its text identifies it."""

    text: str
    is_splat: bool


class ParseFailed(ValueError):
    """The text or bytecode is not a program; `line` is where, 0 if not known."""

    def __init__(self, message: str, line: int = 0) -> None:
        self.line = line
        super().__init__(message)


def plain_operations() -> None:
    """Let operations be plain objects in this process: finding a Python class for each one would double the time to read them."""
    _mlir.globals.dialect_search_modules = []


def context() -> Any:
    """A context that knows the dialects of JAX programs and keeps operators of others as they are."""
    global _registered
    if not _registered:
        _mlirHlo.register_mhlo_passes()
        _stablehlo.register_stablehlo_passes()
        _registered = True
    made = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    for register in (_sdy.register_dialect, _mlirHlo.register_mhlo_dialect, _chlo.register_dialect, _stablehlo.register_dialect):
        register(made)
    made.allow_unregistered_dialects = True
    made.enable_multithreading(False)
    return made


def attribute(operation: Any, name: str) -> Any:
    """An operation's attribute, `None` where it has none; `Unread` for what the bindings have no class for."""
    try:
        return operation.attributes.get(name)
    except TypeError:  # "Can't cast unknown element type": dense complex numbers
        text = operation.get_asm(large_elements_limit=1)
        splat = "elided" not in text and "dense<[" not in text
        return Unread(text if splat else str(operation), splat)


def attributes(operation: Any, name: str) -> Any:
    """All attributes of an operation; of a constant, the value alone."""
    return {"value": attribute(operation, "value")} if name == "constant" else operation.attributes


def _refuse_quantised(content: bytes) -> None:
    """Refuse quantised elements wherever arithmetic on them is more than on the integers that store them."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not _QUANTISED.search(line):
            continue
        names = re.findall(rb"\b(?:stablehlo|mhlo|chlo|func)\.(\w+)", line.partition(b"!quant")[0]) or re.findall(rb"\breturn\b", line)
        name = names[-1].decode() if names else "an operator whose name stands on another line"
        if name not in _ON_QUANTISED and name not in ("func", "call"):
            raise ParseFailed(f"has quantised elements in {name}, which has no cost here: dequantise them first", number)


def plain_text(content: bytes) -> bytes | None:
    """The text without what these bindings do not know, `None` if it has none of it: quantised types as storage, checks as unknown."""
    if _QUANTISED.search(content):
        _refuse_quantised(content)
    changed = _CHECK.sub(_checked, content)
    for match in reversed(list(_QUANTISED.finditer(changed))):
        depth, end = 1, match.end()
        while depth and end < len(changed):
            depth += {60: 1, 62: -1}.get(changed[end], 0)
            end += 1
        storage = re.match(rb"\s*(u?i\d+)", changed[match.end() :])
        changed = changed[: match.start()] + (storage.group(1) if storage else b"i8") + changed[end:]
    changed = re.sub(rb"stablehlo\.uniform_(?:de)?quantize", b"stablehlo.convert", changed) if changed != content else changed
    return changed if changed != content else None


def _checked(match: re.Match[bytes]) -> bytes:
    operands = re.findall(rb"%[\w$.#-]+", match.group(2))
    kinds = [kind.strip() for kind in match.group(3).split(b", tensor")]
    kinds = [kinds[0], *(b"tensor" + kind for kind in kinds[1:])]
    return b'"%s"(%s) : (%s) -> ()' % (match.group(1), b", ".join(operands), b", ".join((kinds * len(operands))[: len(operands)]))


def _raise_for_memory(error: Exception) -> None:
    """Raise MemoryError where memory ran out, which these bindings may report as any error and is no fault of the program."""
    if isinstance(error, MemoryError) or str(error).strip() == "std::bad_alloc":
        raise MemoryError from None


def _failure(error: Exception) -> ParseFailed:
    text = str(error)
    _raise_for_memory(error)
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
    """Parse text, bytecode or a portable artifact."""
    with made:
        if content.startswith(BYTECODE) and b"StableHLO_v" in content[:64]:
            try:
                return _stablehlo.deserialize_portable_artifact(made, content)
            except Exception as error:
                raise _failure(error) from None
        try:
            module = ir.Module.parse(content)
        except Exception as error:
            _raise_for_memory(error)
            plainer = None if content.startswith(BYTECODE) else plain_text(content)
            if plainer is None:
                raise _failure(error) from None
            try:
                module = ir.Module.parse(plainer)
            except Exception:
                raise _failure(error) from None
        if _uses(module, "vhlo"):
            try:
                passmanager.PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(module.operation)
            except Exception as error:
                raise _failure(error) from None
        return module


def _holds(module: Any, name: str) -> bool:
    """Whether a function has an operation of that name at its top level."""
    return any(
        view.operation.name == name
        for function in module.body.operations
        if function.operation.name == "func.func"
        for block in function.operation.regions[0].blocks
        for view in block.operations
    )


def _uses(module: Any, dialect: str) -> bool:
    return any(operation.operation.name.startswith(dialect + ".") for operation in module.body.operations)


def _steps(content: bytes) -> str:
    """XLA's steps before its import (xla/pjrt/mlir_to_hlo.cc): CHLO and complex functions written out, dead and repeated code dropped.

    A step for operators or types that the program does not name is left out: it would change nothing.
    """
    chlo = b"chlo" in content
    complex_numbers = chlo or b"complex" in content or content.startswith(BYTECODE)
    jumps = b"cf." in content or b"[^" in content
    branching = any(name in content for name in (b"while", b"case", b"mhlo.if", b"if\0"))
    first = [
        *(["chlo-legalize-to-high-level-mhlo", "chlo-legalize-to-stablehlo"] if chlo else []),
        # Writing out complex functions also folds constants, drops repeated ones and joins blocks: done in any case, without blocks faster.
        "stablehlo-complex-math-expander" if complex_numbers or jumps else _TIDY,
        *(["mhlo-sink-constants-to-control-flow"] if branching else []),
    ]
    return f"func.func({','.join(first)}),{IMPORT}"


def _run(module: Any, made: Any, steps: str, verify: bool = False) -> bool:
    with made:
        try:
            manager = passmanager.PassManager.parse(f"builtin.module({steps})")
            manager.enable_verifier(verify)
            manager.run(module.operation)
        except Exception as error:
            _raise_for_memory(error)
            return False
        return True


def tidy(module: Any, made: Any) -> bool:
    """Drop repeated constants and what nothing reads, in place; whether it could be done."""
    return _run(module, made, f"func.func({_TIDY})")


def simplify(module: Any, made: Any, content: bytes) -> bool:
    """Run XLA's import steps on the module in place; whether they could be run. When not, the module is spoilt: parse it anew."""
    if b"einsum" in content and _holds(module, "stablehlo.einsum"):
        einsum = "stablehlo-legalize-to-hlo,func.func(mhlo-legalize-einsum-to-dot-general)"
        if not _run(module, made, einsum, verify=True):
            return False
    return _run(module, made, _steps(content))


def refine(module: Any, made: Any) -> bool:
    """Work out dynamic shapes from the static ones of the arguments, in place; whether it could be done."""
    steps = "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes"
    return _run(module, made, steps, verify=True)


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
