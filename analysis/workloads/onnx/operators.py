"""What does one ONNX operator cost? Operations, bytes and class, by the conventions of `hlo.cost`; each operator is one kernel.

Elementwise: operations of an element of the result, plain and transcendental. Reductions and normalisations: of an element of the input.
Products: 2 batch m n k. Pools count the elements that a window adds or compares. Sources: onnx.ai/onnx/operators, whose function bodies
the counts of composed operators (Gelu, LayerNormalization, ...) follow; ONNX Runtime's ContribOperators.md for `com.microsoft`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.paths import DATA
from analysis.workloads.graph import Attention, Convolution, Matmul, OperatorClass, Tensor
from analysis.workloads.hlo.cost import convolution_flops, matmul_flops, moved, valid_positions

OPERATORS = DATA / "workloads" / "onnx" / "operators.csv"
"""Kind of each operator, and operations of an element where it has such; read as it stands, for a quick start."""
_ROWS = [line.split(",") for line in OPERATORS.read_text(encoding="utf-8").splitlines()[1:]]
KIND = {name: kind for name, kind, _, _ in _ROWS}
EACH = {name: (float(plain or 0), float(hard or 0)) for name, _, plain, hard in _ROWS}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class NotModelled(ValueError):
    """No rule for the operator, or not for these inputs."""


@dataclass(frozen=True)
class Part:
    """What an operator does as one kernel: see `OperatorWork`; `steps`: how often, one after the other."""

    op_class: OperatorClass
    flops: float = 0.0
    bytes: float = 0.0
    transcendentals: float = 0.0
    matmul: Matmul | None = None
    convolution: Convolution | None = None
    attention: Attention | None = None
    steps: int = 1


def stands_for(kind: str) -> str:
    """The operator of StableHLO that moves data the same way, for the fusion rule; the operator's own name for all others."""
    same = {"view": "reshape", "gather": "slice", "slice": "slice", "scatter": "scatter", "sort": "sort"}.get(KIND.get(kind, ""))
    return f"stablehlo.{same}" if same else f"onnx.{kind}"


def parts(kind: str, given: dict[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Part]:
    """What an operator does."""
    everything, first, result = moved(inputs, outputs), inputs[0] if inputs else outputs[0], outputs[0]
    family, (plain, hard) = KIND.get(kind), EACH.get(kind, (0.0, 0.0))
    if family == "view":
        return [Part("data movement")]
    if family == "elementwise":
        return [Part("elementwise" if plain >= hard else "transcendental", plain * result.elements, everything, hard * result.elements)]
    if family == "added up":
        return [Part("elementwise", max(1, len(inputs) - (kind != "Mean")) * result.elements, everything)]
    if family == "reduction":
        return [Part("reduction", plain * first.elements, everything, hard * first.elements)]
    if family == "movement":
        return [Part("data movement", 0, everything)]
    if family == "slice":
        return [Part("data movement", 0, 2.0 * sum(each.bytes for each in outputs))]
    if family == "gather":
        return [Part("data movement", 0, 2 * result.bytes + inputs[1].bytes)]
    if family == "scatter":
        return [Part("data movement", 0, 3 * inputs[-1].bytes + inputs[1].bytes)]
    if family == "pool":
        return [Part("reduction", plain * result.elements * math.prod(given["kernel_shape"]), everything)]
    if kind in ("CumSum", "CumProd"):
        return [Part("scan", 2.0 * first.elements, 2 * everything)]
    if kind == "EmbedLayerNormalization":
        return [Part("reduction", 9.0 * result.elements, 4.0 * result.bytes)]  # three rows gathered, added and normalised
    if family == "sort":
        return [Part("sort", first.elements * max(1, (first.elements - 1).bit_length()), everything)]
    if kind in GATES:
        return _recurrent(kind, given, inputs, result)
    if family == "convolution":
        return [_convolution(kind, given, inputs, result, everything)]
    if family == "attention":
        return _attention(kind, given, inputs, result, everything)
    product = _product(kind, given, inputs, result)
    biased = kind in ("Gemm", "FusedGemm") and len(inputs) > 2 and inputs[2].elements
    return [Part("matmul", matmul_flops(product) + (result.elements if biased else 0), everything, matmul=product)]


def _shape(tensor: Tensor) -> list[int]:
    return [int(size or 0) for size in tensor.shape]


def _product(kind: str, given: dict[str, Any], inputs: Sequence[Tensor], result: Tensor) -> Matmul:
    left, out = _shape(inputs[0]), _shape(result)
    if kind in ("Gemm", "FusedGemm"):
        return Matmul(1, out[0], out[1], left[0 if given.get("transA") else 1])
    if kind == "MatMulNBits":
        return Matmul(1, math.prod(left[:-1]), int(given["N"]), int(given["K"]), int(given.get("bits", 4)))
    if kind == "Einsum":
        return _einsum(given["equation"], inputs, result)
    if KIND.get(kind) != "product":
        raise NotModelled(kind)
    right = _shape(inputs[3 if kind == "QLinearMatMul" else 1])
    depth = left[-2] if given.get("transA") else left[-1]
    columns = 1 if len(right) == 1 else right[-2] if given.get("transB") else right[-1]
    rows = math.prod(out) // max(1, columns)
    # a weight of two axes multiplies all rows at once
    batch = 1 if math.prod(right[:-2]) == 1 else math.prod(out[:-2])
    return Matmul(batch, rows // max(1, batch), columns, depth)


def _einsum(equation: str, inputs: Sequence[Tensor], result: Tensor) -> Matmul:
    sides, _, kept = equation.replace(" ", "").partition("->")
    named = sides.split(",")
    if len(inputs) != 2 or len(named) != 2 or "." in equation or not kept:
        raise NotModelled("Einsum")
    sizes = {letter: size for name, each in zip(named, inputs, strict=True) for letter, size in zip(name, _shape(each), strict=True)}
    left, right = set(named[0]), set(named[1])

    def size(letters: set[str]) -> int:
        return math.prod(sizes[letter] for letter in letters)

    return Matmul(size(left & right & set(kept)), size(left - right), size(right - left), size((left & right) - set(kept)))


def _convolution(kind: str, given: dict[str, Any], inputs: Sequence[Tensor], result: Tensor, everything: float) -> Part:
    image, kernel = _shape(inputs[0]), _shape(inputs[3 if kind == "QLinearConv" else 1])
    out, rank = _shape(result), len(image) - 2
    groups = int(given.get("group", 1))
    ones, nothing = [1] * rank, [0] * 2 * rank
    taps = kernel[2:]
    stride, dilation, pads = ([int(n) for n in given.get(*key)] for key in (("strides", ones), ("dilations", ones), ("pads", nothing)))
    low, high = pads[:rank], pads[rank:]
    sizes, places, holes, step = image[2:], out[2:], ones, stride
    if kind == "ConvTranspose":  # as a convolution of the image with holes between its elements
        low = [d * (k - 1) - p for d, k, p in zip(dilation, taps, low, strict=True)]
        high, holes, step = list(low), stride, ones
    elif str(given.get("auto_pad", "NOTSET")).startswith("SAME"):
        need = [max(0, (o - 1) * s + (k - 1) * d + 1 - i) for o, s, k, d, i in zip(places, stride, taps, dilation, sizes, strict=True)]
        low = [n // 2 if given["auto_pad"] == "SAME_UPPER" else n - n // 2 for n in need]
        high = [n - a for n, a in zip(need, low, strict=True)]
    spans = zip(sizes, taps, places, step, low, dilation, holes, strict=True)
    found = Convolution(
        batch=image[0], in_features=image[1], out_features=out[1], input=tuple(sizes), kernel=tuple(taps), output=tuple(places),
        stride=tuple(step), dilation=tuple(dilation), padding=tuple(zip(low, high, strict=True)), feature_groups=groups, batch_groups=1,
        positions=math.prod(valid_positions(*span) for span in spans),
    )  # fmt: skip
    return Part("convolution", convolution_flops(found), everything, convolution=found)


def _recurrent(kind: str, given: dict[str, Any], inputs: Sequence[Tensor], result: Tensor) -> list[Part]:
    """The inputs' product of all steps at once, and then a product and the gates a step; the results are written by the steps."""
    image, weights = _shape(inputs[0]), _shape(inputs[1])
    steps, batch = (image[1], image[0]) if given.get("layout") else (image[0], image[1])
    directions, wide, hidden = weights[0], weights[1], weights[1] // GATES[kind]
    whole = Matmul(directions, steps * batch, wide, image[2])
    each = Matmul(directions, batch, wide, hidden)
    size = max(1, inputs[0].bytes // max(1, inputs[0].elements))
    through = directions * steps * batch * wide * size
    cells = float(directions * batch * wide)
    moved_a_step = inputs[2].bytes + (through + result.bytes) / max(1, steps)
    return [
        Part("matmul", matmul_flops(whole), inputs[0].bytes + inputs[1].bytes + through, matmul=whole),
        Part("matmul", matmul_flops(each) + 3 * cells, moved_a_step, cells, each, steps=steps),
    ]


def _attention(kind: str, given: dict[str, Any], inputs: Sequence[Tensor], result: Tensor, everything: float) -> list[Part]:
    """Fused attention: queries, keys, values and the result pass through memory, the scores do not."""
    query = _shape(inputs[0])
    found: list[Part] = []
    if len(query) == 4:  # batch, heads, tokens, size
        key = _shape(inputs[1])
        sizes = (query[0], query[1], key[1], query[3], query[2], key[2])
    elif len(query) == 3:
        heads = int(given.get("num_heads") or given["q_num_heads"])
        shared = int(given.get("kv_num_heads") or heads)
        width = query[2]
        keys = query[1]
        if kind == "Attention" and "num_heads" in given:  # ONNX Runtime's: takes the block's input and its weights
            wide = _shape(inputs[1])[1]
            width = wide // 3
            product = Matmul(1, query[0] * query[1], wide, query[2])
            size = max(1, inputs[0].bytes // max(1, inputs[0].elements))
            qkv = query[0] * query[1] * wide * size
            found = [Part("matmul", matmul_flops(product), inputs[0].bytes + inputs[1].bytes + qkv, matmul=product)]
            everything = qkv + result.bytes
        elif len(inputs) > 1 and inputs[1].elements:
            key = _shape(inputs[1])
            keys = key[1] if len(key) == 3 else key[-2]
        else:  # queries, keys and values in one
            width = query[2] * heads // (heads + 2 * shared)
        past = next((_shape(each)[2] for each in inputs[3:] if len(each.shape) == 4 and each.elements and each.shape[1] == shared), 0)
        cached = kind == "GroupQueryAttention"  # whose past is a buffer that holds the new keys, too
        sizes = (query[0], heads, shared, width // heads, query[1], max(keys, past if cached else past + keys))
    else:
        raise NotModelled(kind)
    causal = bool(given.get("is_causal") or given.get("unidirectional") or kind == "GroupQueryAttention")
    return [*found, attention_part(Attention(*sizes, causal), everything)]


def attention_part(attention: Attention, size: float) -> Part:
    """One fused kernel: 4 head_size operations a pair of query and key; the softmax runs beside its products and is not counted."""
    scores = attention.batch * attention.query_heads * attention.pairs
    return Part("matmul", 4 * attention.head_size * scores, size, attention=attention)
