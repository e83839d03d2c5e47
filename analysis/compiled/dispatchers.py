"""Compiled functions: `outer` ones are called from Python, `inner` ones from compiled code alone, and become machine code once.

numba by itself optimises and emits every function together with all that it calls, so what stands at the bottom of a tree of calls six
levels deep becomes machine code six times. Here an inner function is only typed and lowered; the outer function that calls it links,
optimises and emits the whole tree, and is what the cache keeps. The cache knows a function by its content and that of all that it
calls (numba looks at one file's time), and two processes that miss the same function wait for one another instead of both compiling.
What numba itself works out over and over is replaced in `numba_patches`: half of the time of a compilation.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.ir_utils import enforce_no_phis
from numba.core.lowering import BaseLower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

from analysis.call_stack import in_one_piece
from analysis.compiled.plain_python import names, plain, run_plain


class _NoSymbols:
    """What an inner function's library has for a code generator when its function is told where its environment is: nothing."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing to set: no machine code yet; the outer function sets it."""


class _Unemitted(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of an inner function with what it calls: neither optimised nor emitted."""

    @property
    def codegen(self) -> Any:
        return _NoSymbols() if self._finalized else self._codegen

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


_slow_wrapper = BaseLower.create_cfunc_wrapper
# What C could call: numba gives it to every function of its own that compiled code uses, and nothing emitted calls it.
BaseLower.create_cfunc_wrapper = lambda self: None if isinstance(self.library, _Unemitted) else _slow_wrapper(self)  # type: ignore[method-assign]


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerInner(NativeLowering):  # type: ignore[misc]
    _name = "lower_inner"

    def run_pass(self, state: Any) -> bool:
        state.library = _Unemitted(state.targetctx.codegen(), state.func_id.func_qualname)
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerOuter(NativeLowering):  # type: ignore[misc]
    _name = "lower_outer"

    def run_pass(self, state: Any) -> bool:
        state.library = JITCodeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        done = bool(super().run_pass(state))
        codegen = state.targetctx.codegen()
        for variable in state.library._final_module.global_variables:
            if variable.name.startswith("_ZN08NumbaEnv") and (environment := lookup_environment(variable.name)) is not None:
                codegen.set_env(variable.name, environment)
        return done


@register_pass(mutates_CFG=False, analysis_only=True)
class _NothingToFree(IRLegalization):  # type: ignore[misc]
    _name = "nothing_to_free"

    def run_pass(self, state: Any) -> bool:
        enforce_no_phis(state.func_ir)
        return True


_WITHOUT_ALLOCATION = {IRLegalization: _NothingToFree, NopythonRewrites: None, InlineClosureLikes: None}
"""Steps that free variables, rewrite expressions of whole arrays and take comprehensions apart: a function without allocation has none."""


class _InnerCompiler(CompilerBase):  # type: ignore[misc]
    lowering: Any = _LowerInner

    def define_pipelines(self) -> list[Any]:
        instead = {NativeLowering: self.lowering} if self.state.flags.nrt else {NativeLowering: self.lowering, **_WITHOUT_ALLOCATION}
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(now, why) for step, why in passes.passes if (now := instead.get(step, step)) is not None]
        passes._finalized = False
        passes.finalize()
        return [passes]


@contextmanager
def _libraries(codegen: Any, kind: type) -> Iterator[None]:
    """Let new code be of one kind of library: what numba itself compiles below an outer function needs no machine code either."""
    before = codegen._library_class
    codegen._library_class = kind
    try:
        yield
    finally:
        codegen._library_class = before


class _OuterCompiler(_InnerCompiler):
    lowering = _LowerOuter

    def _compile_core(self) -> Any:
        with _libraries(self.state.targetctx.codegen(), _Unemitted):
            return super()._compile_core()


def _said(value: Any) -> bytes:
    """A constant's content, the same in every process."""
    if isinstance(value, CodeType):
        # bytecode has fields and attributes as places in co_names: another name is the same bytecode
        return value.co_code + repr(value.co_names).encode() + b"".join(map(_said, value.co_consts))
    if isinstance(value, np.ndarray):
        return str(value.dtype).encode() + value.tobytes()
    if isinstance(value, frozenset):
        return b"".join(sorted(map(_said, value)))
    return repr(value).encode()


def content(function: Callable[..., Any]) -> str:
    """Digest of a function's code, the constants that it takes from its module, and the compiled functions that it calls."""
    digest = hashlib.sha256()
    seen: set[int] = set()
    stack: list[Any] = [function]
    while stack:
        item = stack.pop()
        given = getattr(item, "py_func", getattr(item, "_defn", item))
        if id(given) in seen or not isinstance(given, FunctionType):
            continue
        seen.add(id(given))
        digest.update(_said(given.__code__) + repr(sorted(getattr(item, "targetoptions", {}).items())).encode())
        used = sorted(names(given.__code__))
        for name in used:
            value = given.__globals__.get(name)
            if isinstance(value, ModuleType):
                for other in used:
                    found = getattr(value, other, None)
                    stack.append(found)
                    if isinstance(found, int | float | tuple):
                        digest.update(f"{name}.{other}=".encode() + _said(found))
            elif callable(value):
                digest.update(f"{name}{getattr(value, '_fields', ())}".encode())
                stack.append(value)
            elif value is not None:
                digest.update(f"{name}=".encode() + _said(value))
    return digest.hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, told by content, with a lock between a miss and what is then compiled."""

    lock: Any = None
    began = 0.0

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function of a signature, or None and the lock on compiling it."""
        self._find_file()
        found = self._found(sig, target_context)
        if found is None:
            try:
                self._impl.locator.ensure_cache_path()
                self.lock = open(f"{self._cache_file._index_path}.lock", "wb")  # noqa: SIM115 (released after the compilation)
            except OSError:  # a folder that cannot be written: compiled without a cache
                return None
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            found = self._found(sig, target_context)
            self.began = time.monotonic()
            if found is None and sys.stderr.isatty():
                name = f"{self._py_func.__module__}.{self._py_func.__name__}"
                print(f"compiling {name}, once after an installation; the largest take most of a minute ...", file=sys.stderr)
        return found

    def _find_file(self) -> None:
        stamp = content(self._py_func)
        base = f"{self._impl.filename_base}.{stamp[:20]}"
        self._cache_file = IndexDataCacheFile(cache_path=self._cache_path, filename_base=base, source_stamp=stamp)

    def exists(self) -> bool:
        """Whether the function was compiled before, for some signature."""
        self._find_file()
        return Path(self._cache_file._index_path).is_file()

    def _found(self, sig: Any, target_context: Any) -> Any:
        """What the files hold; they go where the module of an argument's type has moved since they were written."""
        try:
            return super().load_overload(sig, target_context)
        except (ImportError, AttributeError):
            Path(self._cache_file._index_path).unlink(missing_ok=True)
            return None

    def release(self) -> None:
        """Let others look again."""
        if self.lock is not None:
            if sys.stderr.isatty():
                print(f"... compiled in {time.monotonic() - self.began:.0f} s", file=sys.stderr)
            self.lock.close()
            self.lock = None


class _Outer(CPUDispatcher):  # type: ignore[misc]
    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The same in plain Python, all below it too: for inputs so small that compiling, or reading what was compiled, takes longer."""
        return plain(self)

    instead: Any = None
    """Called in place of `plain`, with the arguments as they are."""
    spent_s = 0.0
    """CPU-seconds that it has run in plain Python as `chosen`."""

    def chosen(self, small: bool, patience_s: float = 1.0) -> Callable[..., Any]:
        """What answers soonest: itself, or the same in plain Python where it is not compiled yet and has little to do.

        Where `ANALYSIS_COMPILE` is `always` it is itself: a build runs so many notebooks that each function is compiled in the end.

        Args:
            small: whether this input takes plain Python a few seconds at most.
            patience_s: CPU-seconds in plain Python, of all calls together, after which it is compiled.
        """
        always = os.environ.get("ANALYSIS_COMPILE") == "always"
        return self if always or not small or self.overloads or self.spent_s > patience_s or self._on_disk else self._in_plain

    @cached_property
    def _on_disk(self) -> bool:
        return isinstance(self._cache, _Cache) and self._cache.exists()

    def _in_plain(self, *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return self.instead(*arguments) if self.instead else run_plain(self.plain, arguments)
        except Exception:  # plain Python stumbles, and has changed nothing: compiled code says what is wrong, if anything is
            self.spent_s = np.inf
            return self(*arguments)
        finally:
            self.spent_s += time.thread_time() - began

    def enable_caching(self) -> None:
        self._cache = _Cache(self.py_func)

    def compile(self, sig: Any) -> Any:
        """Compile for a signature, or read it from the cache; a terminal is told what takes long."""
        collecting = gc.isenabled()
        gc.disable()  # millions of objects, none of them garbage before the end: looking for it takes a tenth of the time
        try:
            context: Any = self.targetctx
            with _libraries(context.codegen(), JITCodeLibrary):
                return in_one_piece(super().compile, sig)
        finally:
            if collecting:
                gc.enable()
            if isinstance(self._cache, _Cache):
                self._cache.release()


def _wide(found: Any) -> Any:
    """The type for which an inner function is compiled: constants and short integers count as integers of 64 bits."""
    given: Any = types.unliteral(found)
    return types.int64 if getattr(given, "signed", False) else given


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """An inner function; where Python calls it, it is compiled as an outer one."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What a call with these types gives, compiled once for all kinds of integers."""
        return super().get_call_template([_wide(given) for given in args], {key: _wide(given) for key, given in kws.items()})

    _of_its_own: Any = None
    instead: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._of_its_own is None:
            self._of_its_own = outer(self.py_func, **{key: value for key, value in self.targetoptions.items() if key not in _INNER})
        return self._of_its_own(*arguments)


_INNER = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "boundscheck": None}
_OUTER = {"nopython": True, "no_cfunc_wrapper": True, "boundscheck": None}


def inner(function: Any = None, plain: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Mark a function that compiled functions call.

    Args:
        plain: the same for numbers of any size, where its own text means numbers of 64 bits.
        options: of `numba.njit`; `_nrt=False` for a function that allocates nothing.
    """
    if function is None:
        return lambda given: inner(given, plain, **options)
    made = _Inner(function, targetoptions={**_INNER, **options}, pipeline_class=_InnerCompiler)
    made.instead = plain
    return made


def outer(function: Any = None, plain: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile and cache a function that Python calls, with all inner functions below it.

    Args:
        plain: what does the same sooner for small inputs, on whole arrays; otherwise the function's own text does.
        options: of `numba.njit`; `_nrt=False` for a function that allocates nothing.
    """
    if function is None:
        return lambda given: outer(given, plain, **options)
    made = _Outer(function, targetoptions={**_OUTER, **options}, pipeline_class=_OuterCompiler)
    made.instead = plain
    made.enable_caching()
    return made
