"""Compiled functions: `outer` ones are called from Python, `inner` ones from compiled code alone, and become machine code once.

numba by itself optimises and emits every function together with all that it calls, so what stands at the bottom of a tree of calls six
levels deep becomes machine code six times. Here an inner function is only typed and lowered; the outer function that calls it links,
optimises and emits the whole tree, and is what the cache keeps. The cache knows a function by its content and that of all that it
calls (numba looks at one file's time), and two processes that miss the same function wait for one another instead of both compiling.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import TargetConfig
from numba.core.typed_passes import NativeLowering
from numba.extending import overload
from numba.np import arrayobj


def _shapes_differ(given: Any, expected: Any) -> None:
    """Stands for what numba raises when an array does not fit the slice that it is assigned to."""


@overload(_shapes_differ)
def _raise_shapes_differ(given: Any, expected: Any) -> Any:
    def raises(given: Any, expected: Any) -> None:
        raise ValueError("cannot assign slice from input of different shape")

    return raises


# numba's own error spells both shapes out: forty functions for text, in every program that assigns to a slice, 40 % of its compilation.
arrayobj.raise_with_shape_context = _shapes_differ


_slow_equal = TargetConfig.__eq__


def _equal(self: TargetConfig, other: object) -> Any:
    return True if type(other) is type(self) and other._values == self._values else _slow_equal(self, other)


def _hash(self: TargetConfig) -> int:
    return hash(type(self))


# numba asks this of two sets of options hundreds of thousands of times, and works every option out: a tenth of its compilation.
TargetConfig.__eq__ = _equal  # type: ignore[method-assign]
TargetConfig.__hash__ = _hash  # type: ignore[method-assign]


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


class _InnerCompiler(CompilerBase):  # type: ignore[misc]
    lowering: Any = _LowerInner

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(self.lowering, why) if step is NativeLowering else (step, why) for step, why in passes.passes]
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


def _names(code: CodeType) -> set[str]:
    """Global names that a function's code and the code within it use."""
    within = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, within))


def _said(value: Any) -> bytes:
    """A constant's content, the same in every process."""
    if isinstance(value, CodeType):
        return value.co_code + b"".join(map(_said, value.co_consts))
    if isinstance(value, np.ndarray):
        return str(value.dtype).encode() + value.tobytes()
    if isinstance(value, frozenset):
        return b"".join(sorted(map(_said, value)))
    return repr(value).encode()


def content(function: Callable[..., Any]) -> str:
    """Digest of a function's code, the constants that it takes from its module, and the compiled functions that it calls.

    Args:
        function: a compiled or plain Python function.
    """
    digest = hashlib.sha256()
    seen: set[int] = set()
    stack: list[Any] = [function]
    while stack:
        item = stack.pop()
        plain = getattr(item, "py_func", getattr(item, "_defn", item))
        if id(plain) in seen or not isinstance(plain, FunctionType):
            continue
        seen.add(id(plain))
        digest.update(_said(plain.__code__) + repr(sorted(getattr(item, "targetoptions", {}).items())).encode())
        names = sorted(_names(plain.__code__))
        for name in names:
            value = plain.__globals__.get(name)
            if isinstance(value, ModuleType):
                stack.extend(getattr(value, other, None) for other in names)
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
        stamp = content(self._py_func)
        base = f"{self._impl.filename_base}.{stamp[:20]}"
        self._cache_file = IndexDataCacheFile(cache_path=self._cache_path, filename_base=base, source_stamp=stamp)
        found = super().load_overload(sig, target_context)
        if found is None:
            try:
                self._impl.locator.ensure_cache_path()
                self.lock = open(f"{self._cache_file._index_path}.lock", "wb")  # noqa: SIM115 (released after the compilation)
            except OSError:  # a folder that cannot be written: compiled without a cache
                return None
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            found = super().load_overload(sig, target_context)
            self.began = time.monotonic()
            if found is None and sys.stderr.isatty():
                name = f"{self._py_func.__module__}.{self._py_func.__name__}"
                print(f"compiling {name}, once after an installation; the largest take most of a minute ...", file=sys.stderr)
        return found

    def release(self) -> None:
        """Let others look again."""
        if self.lock is not None:
            if sys.stderr.isatty():
                print(f"... compiled in {time.monotonic() - self.began:.0f} s", file=sys.stderr)
            self.lock.close()
            self.lock = None


def _plain(function: Any, made: dict[int, FunctionType]) -> FunctionType:
    given: FunctionType = function.py_func
    if id(given) not in made:
        names = dict(given.__globals__)
        made[id(given)] = FunctionType(given.__code__, names, given.__name__, given.__defaults__, given.__closure__)
        names.update(
            {name: _plain(value, made) for name in _names(given.__code__) if isinstance(value := names.get(name), _Inner | _Outer)}
        )
    return made[id(given)]


class _Outer(CPUDispatcher):  # type: ignore[misc]
    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The same in plain Python, all below it too: for inputs so small that compiling, or reading what was compiled, takes longer."""
        return _plain(self, {})

    def enable_caching(self) -> None:
        self._cache = _Cache(self.py_func)

    def compile(self, sig: Any) -> Any:
        """Compile for a signature, or read it from the cache; a terminal is told what takes long."""
        collecting = gc.isenabled()
        gc.disable()  # millions of objects, none of them garbage before the end: looking for it takes a tenth of the time
        try:
            context: Any = self.targetctx
            with _libraries(context.codegen(), JITCodeLibrary):
                return super().compile(sig)
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
    """An inner function; where a test calls it from Python, it is compiled as an outer one."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What a call with these types gives, compiled once for all kinds of integers."""
        return super().get_call_template([_wide(given) for given in args], {key: _wide(given) for key, given in kws.items()})

    _of_its_own: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._of_its_own is None:
            self._of_its_own = outer(self.py_func, **{key: value for key, value in self.targetoptions.items() if key not in _INNER})
        return self._of_its_own(*arguments)


_INNER = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "boundscheck": None}
_OUTER = {"nopython": True, "no_cfunc_wrapper": True, "boundscheck": None}


def inner(function: Any = None, **options: Any) -> Any:
    """Mark a function that compiled functions call.

    Args:
        function: plain Python of the kind that numba compiles.
        options: of `numba.njit`; `_nrt=False` for a function that allocates nothing.
    """
    if function is None:
        return lambda given: inner(given, **options)
    return _Inner(function, targetoptions={**_INNER, **options}, pipeline_class=_InnerCompiler)


def outer(function: Any = None, **options: Any) -> Any:
    """Compile and cache a function that Python calls, with all inner functions below it.

    Args:
        function: plain Python of the kind that numba compiles.
        options: of `numba.njit`; `_nrt=False` for a function that allocates nothing.
    """
    if function is None:
        return lambda given: outer(given, **options)
    made = _Outer(function, targetoptions={**_OUTER, **options}, pipeline_class=_OuterCompiler)
    made.enable_caching()
    return made
