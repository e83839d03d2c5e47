"""Which columns does a command read from a file of cases, and what becomes of the others?

A column that the command does not read is refused where it looks like one that it reads or belongs to another command: left out, it would
turn the question into another one. Every other column is the user's own (an id, a note, a measured value) and is carried through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from analysis.errors import InputError

COMMANDS = {
    "predict training": "analysis.training.cases",
    "predict batch": "analysis.serving.batch.cases",
    "predict serving": "analysis.serving.points.cases",
    "predict recommend": "analysis.predict.recommend.choice",
    "predict collective": "analysis.networks.collective_cases",
    "collectives": "analysis.networks.case_table",
    "systolic": "analysis.accelerators.systolic.cases",
    "kernels predict": "analysis.kernels.cases",
}
"""Commands that answer files of cases, and the module whose `READS` declares their columns; loaded only where a column is unknown."""

TABLES = {
    "predict requests": "analysis.serving.points.request_answers",
    "measured score": "analysis.studies.suite.score",
    "replay": "analysis.networks.trace",
    "serve": "analysis.serving.requests",
    "kernels evaluate": "analysis.studies.kernels.fp32.evaluation",
    "kernels score": "analysis.studies.kernels.fp32.evaluation",
    "blocks evaluate": "analysis.studies.cores.blocks.data",
}
"""Commands that read other tables, likewise; a column of theirs is no question to another command."""

SAME = (
    ("model", "model_path", "model_name"),
    ("device", "hardware", "system", "gpu", "gpu_type", "accelerator"),
    ("gpus", "max_gpus", "devices", "num_gpus", "world_size", "n_gpus"),
    ("framework", "backend", "engine", "engines", "program"),
    ("precision", "dtype", "gemm_quant_mode", "quantization"),
    ("kvcache_quant_mode", "kv_precision", "kv_dtype", "kv_cache_dtype"),
    ("input_tokens", "isl", "prompt_tokens", "input_length"),
    ("output_tokens", "osl", "output_length"),
    ("sequence_length", "seq_len", "seqlen", "context_length"),
    ("batch_size", "batch", "clients", "concurrency", "global_batch"),
    ("micro_batch", "micro_batch_size", "mbs"),
    ("tensor_parallel", "tp", "tp_size", "tensor_parallel_size"),
    ("pipeline_parallel", "pp", "pp_size", "pipeline_parallel_size"),
    ("data_parallel", "dp", "dp_size", "data_parallel_size", "attention_dp_size"),
    ("context_parallel", "cp", "cp_size", "context_parallel_size"),
    ("expert_parallel", "ep", "ep_size", "expert_parallel_size", "moe_ep_size"),
    ("sharding", "zero", "zero_stage", "fsdp", "Sharding Strategy"),
    ("recompute", "checkpointing", "activation_checkpointing"),
    ("ffn_hidden", "ffn", "ffn_hidden_size", "intermediate_size"),
    ("kv_heads", "num_key_value_heads", "num_query_groups"),
    ("vocabulary", "vocab", "vocab_size"),
    ("layers", "num_layers", "num_hidden_layers"),
    ("attention_heads", "heads", "num_attention_heads"),
)
"""Names of one quantity, in different commands and in other people's files: what a refused column is called here."""

USERS_OWN = ("id", "row_id", "name", "note", "notes", "comment", "label", "tag", "source", "date", "version", "layer", "scenario")
"""Carried through whatever a command's own columns are called."""


@dataclass(frozen=True)
class Columns:
    """The columns that a command reads.

    Args:
        names: as the command calls them; required: those that the header has to name; aliases: what else a column may be called -> name.
        meanings: what a column says, where its name does not.
        carried: of tables that the command reads, columns that say nothing more, though another command reads them.
    """

    names: tuple[str, ...]
    required: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)

    def known(self) -> tuple[str, ...]:
        """Every spelling that is read."""
        return (*self.names, *self.aliases)


def reads(command: str) -> Columns:
    """The columns of a command."""
    found = import_module({**COMMANDS, **TABLES}[command]).READS
    assert isinstance(found, Columns)
    return found


def carried(header: Iterable[object], command: str, path: str | Path | None = None) -> list[str]:
    """The user's own columns of a header: those that the command does not read and that nobody could take for one that it does.

    Raises:
        InputError: a column that is misspelt, another command's, given twice or missing, or a header that is not separated by commas.
    """
    given = [str(name) for name in header]
    columns = reads(command)
    if len(given) == 1 and given[0] not in columns.known():
        for sign, name in (("\t", "tabs"), (";", "semicolons")):
            if sign in given[0]:
                raise InputError(f"the columns are separated by {name}; expected commas", path=path, line=1)
    known = set(columns.known())
    own = {*USERS_OWN, *columns.carried}
    unknown = [name for name in given if name not in known and name not in own and not name.startswith("measured_")]
    for name in unknown:
        said = _refusal(name, command, columns)
        if said:
            raise InputError(said, path=path, line=1, key=name)
    here: dict[str, str] = {}
    for name in given:
        called = columns.aliases.get(name, name)
        if called in here and name in known:
            raise InputError(f"says the same as the column {here[called]}: give one of them", path=path, line=1, key=name)
        here[called] = name
    missing = [name for name in columns.required if name not in here]
    if missing:
        expected = ", ".join(columns.required)
        raise InputError(f"missing column; expected {expected}", path=path, line=1, key=", ".join(missing))
    if not known.intersection(given):
        raise InputError(f"has none of the columns that `{command}` reads: {', '.join(columns.names)}", path=path, line=1)
    return [name for name in given if name not in known]


def _refusal(name: str, command: str, columns: Columns) -> str:
    """Why a column that is not read cannot be carried through either; empty where it can."""
    near = nearest(name, columns.known())
    if near:
        return f"no such column; did you mean {near}?"
    plain = _plain(name)
    here = [own for same in SAME if plain in map(_plain, same) for own in same if own in columns.names]
    if here:
        return f"no such column; `{command}` calls it {here[0]}"
    owners = [other for other in COMMANDS if other != command and plain in map(_plain, reads(other).known())]
    if owners or any(plain in map(_plain, same) for same in SAME):
        whose = f"a column of `{owners[0]}`, " if owners else ""
        return f"{whose}not read by `{command}`, which reads {', '.join(columns.names)}"
    return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is misspelt: at most two letters off (one in names of up to five, none in one or two); empty if there is none."""
    plain, best = _plain(name), ("", 3)
    for other in known:
        longest = max(len(plain), len(_plain(other)))
        most = 2 if longest > 5 else int(longest > 2)
        steps = distance(plain, _plain(other))
        if steps <= most and steps < best[1]:
            best = (other, steps)
    return best[0]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def distance(one: str, other: str) -> int:
    """Letters to insert, delete, change or swap with their neighbour to make one word the other."""
    if abs(len(one) - len(other)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, row = row, [i]
        for j, theirs in enumerate(other, 1):
            steps = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != theirs))
            if before and j > 1 and letter == other[j - 2] and one[i - 2] == theirs:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before = last
    return row[-1]
