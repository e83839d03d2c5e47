"""Does a model of the reader's own fit? Its `config.json` gives parameters, weights, cache, and the requests that a machine holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Pasted, Slider, remembered
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving.kv_cache import RESERVED_BYTES, cache_bytes
from analysis.workloads import checkpoints

TITLE = "Does your model fit?"
EXAMPLE = """{"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
 "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672,
 "vocab_size": 128256, "max_position_embeddings": 131072}"""
DEVICES = (
    ("RTX-4090", "RTX 4090"), ("L40S", "L40S"), ("A100-SXM4-80GB", "A100 80 GB"), ("H100-SXM5-80GB", "H100 80 GB"),
    ("H200-SXM5-141GB", "H200 141 GB"), ("B200-SXM-180GB", "B200 180 GB"), ("MI300X", "MI300X 192 GB"),
)  # fmt: skip
GPUS = (1, 2, 4, 8)
GIB = 2.0**30
CONTROLS = (
    Pasted("config", "The config.json of a checkpoint: paste it, change it, or drop the file", EXAMPLE),
    Slider("context", "Tokens of each request", (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072), 8192),
    Choice("cache", "Numbers in the cache", (("2", "16 bits"), ("1", "8 bits")), "2"),
)


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters, weights and cache by `workloads.checkpoints`; requests that fit beside the weights on GPUs of each kind; or a refusal."""
    try:
        raw = json.loads(values["config"])
        named = raw.get("_name_or_path") if isinstance(raw, dict) else None
        model = checkpoints.describe({**raw, "_name_or_path": named or "Your model"} if isinstance(raw, dict) else raw, "config.json")
    except InputError as error:
        return {"refused": f"{error.key}: {error.message}" if error.key else error.message}
    except ValueError:
        return {"refused": "this is no JSON; expected what stands in a config.json, from { to }"}
    width, context = float(values["cache"]), float(values["context"])
    state = 4.0 * model.linear_layers * model.linear.state_values if model.linear else 0.0  # of a request, whatever its length
    fits: list[list[int]] = []
    for device, _ in DEVICES:
        memory, row = devices.load(device).usable_bytes, []
        for gpus in GPUS:
            token = gpus * model.kv_bytes_per_token(width, gpus) if model.attention else 0.0
            grows = gpus * model.growing_bytes_per_token(width, gpus) if model.attention else 0.0
            near = max(0.0, token - grows)  # in layers with a sliding window, which hold at most so many tokens of a request
            request = context * (token - near) + min(context, model.window) * near + state
            size = cache_bytes(gpus * memory, model.weight_bytes, 0.9, gpus * RESERVED_BYTES)
            row.append(-1 if size <= 0 else int(size // request))
        fits.append(row)
    return {
        "name": model.name,
        "parameters": model.parameters,
        "active": model.active_parameters,
        "weight_bytes": model.weight_bytes,
        "kv_bytes": model.kv_bytes_per_token(width) if model.attention else 0.0,
        "longest": model.context or 0,
        "fits": fits,
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """Kinds of GPU down, their number across; in each field how many requests fit."""
    got = answer(values)
    if "refused" in got:
        return drawing.svg(width, 60, [drawing.text(8, 34, "Not answered: the sentence says why.", bold=True)], tell(values))
    left = 112.0
    step = (width - left) / len(GPUS)
    parts = [drawing.text(left + (k + 0.5) * step, 16, f"{gpus} GPU{'s' * (gpus > 1)}", "middle") for k, gpus in enumerate(GPUS)]
    for row, ((_, name), counts) in enumerate(zip(DEVICES, got["fits"], strict=True)):
        y = 26.0 + 30 * row
        parts.append(drawing.text(0, y + 19, name))
        for k, count in enumerate(counts):
            color = drawing.FAINT if count < 1 else drawing.SKY if count < 16 else drawing.GREEN
            words = "no" if count < 0 else f"{count:,}"
            parts.append(drawing.rect(left + k * step + 2, y, step - 4, 27, color, extra='fill-opacity="0.55"'))
            parts.append(drawing.text(left + (k + 0.5) * step, y + 19, words, "middle"))
    below = 26.0 + 30 * len(DEVICES) + 18
    parts.append(drawing.text(0, below, "requests that fit at once; no: the weights do not fit", size=12))
    return drawing.svg(width, below + 8, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    if "refused" in got:
        return f"No answer: {got['refused']}."
    active = f" ({drawing.short(got['active'])} for each token)" if got["active"] != got["parameters"] else ""
    held = got["fits"][[name for name, _ in DEVICES].index("H100-SXM5-80GB")][-1]
    fit = "its weights do not fit" if held < 0 else f"{held:,} requests of {values['context']:,g} tokens fit"
    over = f" The configuration allows {got['longest']:,} tokens only." if 0 < got["longest"] < values["context"] else ""
    return (
        f"{got['name']}: {drawing.short(got['parameters'])} parameters{active}, {got['weight_bytes'] / GIB:.1f} GiB of weights, "
        f"{got['kv_bytes'] / 1024:.4g} KiB of cache for each token; on eight H100 {fit}.{over}"
    )
