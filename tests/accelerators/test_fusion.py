"""Layer lists and traffic between layers: published totals, rows counted one by one, and laws."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.studies.accelerators.fusion import fused, group, layer_by_layer, with_epilogues
from analysis.studies.workloads.layers import Layer, networks, read_layers


def layer(
    name: str, inputs: str, c: int, m: int, p: int, r: int = 1, stride: int = 1, operand: str = "weights", kind: str = "convolution"
) -> Layer:
    size = {"instances": 1, "n": 1, "c": c, "m": m, "p": p, "q": p, "r": r, "s": r, "stride": stride, "padding": r // 2}
    return Layer(name=name, shape=name, kind=kind, operand=operand, inputs=inputs, **size)


def test_resnet50_totals() -> None:
    # He et al. 2016, Table 1: 3.8e9 for v1; with the stride on the 3x3 (v1.5) 4.09e9. Parameters: torchvision 25,557,032, of which
    # 53,120 are batch-norm scales and shifts and 1,000 the last layer's biases.
    layers = read_layers("resnet50")
    assert sum(x.macs for x in layers) == 4_089_184_256
    assert sum(x.weight_words for x in layers) == 25_557_032 - 53_120 - 1_000
    assert sum(x.kind == "convolution" for x in layers) == 53


def test_transformer_totals() -> None:
    # BERT-base (Devlin et al. 2019): 12 layers of 12 h^2 weights, h = 768. Llama 2 7B (Touvron et al. 2023): 32 layers of 4 h^2 + 3 h f
    # with h = 4096, f = 11008, and 32000 h for the head.
    bert = read_layers("bert_base_s128")
    assert sum(x.weight_words for x in bert) == 12 * 12 * 768**2
    assert sum(x.macs for x in bert) == 12 * (128 * 12 * 768**2 + 2 * 128 * 128 * 768)
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
    for name, rows in (("llama2_7b_prefill_s512", 512), ("llama2_7b_decode_s512", 1)):
        llama = read_layers(name)
        assert sum(x.weight_words for x in llama) == weights
        attention = 32 * 2 * rows * 512 * 4096
        assert sum(x.macs for x in llama) == rows * (weights - 32000 * 4096) + 32000 * 4096 + attention


def test_every_list_is_consistent() -> None:
    compared = 0
    for name in networks():
        layers = read_layers(name)
        words = {x.name: x.output_words for x in layers}
        for x in layers:
            if x.operand == "weights" and x.inputs[0] in words and x.padding * 2 >= x.r - 1:
                # a layer reads as many words as its producer gives (the strided 1x1 too: it skips, but fetches rows)
                assert words[x.inputs[0]] in (x.input_words, 512 * x.input_words), (name, x.name)
                compared += 1
    assert compared > 100


def test_layer_by_layer_counts_by_hand() -> None:
    # conv a: 4 -> 8 channels on 6x6; b reads a; add reads b and a.
    layers = [layer("a", "input", 4, 8, 6, 3), layer("b", "a", 8, 8, 6), layer("add", "b;a", 1, 8, 6, operand="none", kind="elementwise")]
    one = layer_by_layer(layers)
    assert one.weight_words == 4 * 8 * 9 + 8 * 8
    assert one.boundary_words == 4 * 36 + 8 * 36
    # a written once, read twice; b written once, read once
    assert one.between_words == 3 * 288 + 2 * 288
    assert with_epilogues(layers).between_words == 2 * 288  # a out and, once for b and add together, back
    together = group(layers, 0, 2)
    assert together.traffic_words == one.weight_words + one.boundary_words
    # weights; one row of a and b each (8 x 6), three rows of the input (4 x 6)
    assert together.rows_buffer_words == one.weight_words + 48 + 48 + 72
    assert together.whole_buffer_words == 2 * 288  # a and b, both alive while b is made and added
    # one product and an element-wise layer run tile by tile: a row of b
    assert group(layers, 1, 2).rows_buffer_words == 48


@st.composite
def chains(draw: st.DrawFn) -> list[Layer]:
    size = draw(st.integers(4, 12))
    layers, channels, source = [], 2, "input"
    for i in range(draw(st.integers(2, 5))):
        r, stride = draw(st.sampled_from([1, 3, 5])), draw(st.sampled_from([1, 1, 2]))
        if size % stride:
            stride = 1
        size //= stride
        wide = draw(st.integers(1, 4))
        layers.append(layer(f"l{i}", source, channels, wide, size, r, stride))
        channels, source = wide, f"l{i}"
    if layers[-1].stride == 1 and layers[-1].m == layers[-1].c and len(layers) > 1:
        layers.append(layer("add", f"{source};{layers[-2].name}", 1, channels, size, operand="none", kind="elementwise"))
    return layers


@settings(max_examples=150, deadline=None)
@given(chains())
def test_streaming_row_by_row_never_needs_more_than_the_group_says(layers: list[Layer]) -> None:
    by_name = {x.name: x for x in layers}
    height = {x.name: x.p for x in layers} | {"input": layers[0].p * layers[0].stride}
    row_words = {x.name: x.m * x.q for x in layers} | {"input": layers[0].c * layers[0].q * layers[0].stride}
    live: dict[str, int] = dict.fromkeys(height, 0)
    last = layers[-1]
    for y in range(last.p):
        need: dict[str, set[int]] = {name: set() for name in height}
        need[last.name] = {y}
        for x in reversed(layers):
            for row, source, tap in product(need[x.name], x.inputs, range(x.r)):
                at = row * x.stride - x.padding + tap
                if 0 <= at < height[source]:
                    need[source].add(at)
        for name, rows in need.items():
            if rows:
                live[name] = max(live[name], max(rows) - min(rows) + 1)
    peak = sum(live[name] * row_words[name] for name in height if name != last.name) + sum(x.weight_words for x in by_name.values())
    if sum(x.operand != "none" for x in layers) > 1:
        assert peak <= group(layers, 0, len(layers) - 1).rows_buffer_words


@settings(max_examples=100, deadline=None)
@given(chains())
def test_running_whole_layers_needs_what_the_group_says(layers: list[Layer]) -> None:
    uses = {x.name: sum(x.name in y.inputs for y in layers) for x in layers}
    held: dict[str, int] = {}
    peak = 0
    for x in layers:
        if uses[x.name]:
            held[x.name] = x.output_words
        peak = max(peak, sum(held.values()))
        for source in x.inputs:
            if source in uses:
                uses[source] -= 1
                if not uses[source]:
                    del held[source]
    assert peak == group(layers, 0, len(layers) - 1).whole_buffer_words


@settings(max_examples=60, deadline=None)
@given(chains(), st.integers(0, 2000))
def test_the_cut_is_the_best_there_is(layers: list[Layer], buffer: int) -> None:
    best = fused(layers, buffer)
    assert all(part.first == part.last or part.buffer_words <= buffer for part in best.groups)
    totals = []
    for ends in product([False, True], repeat=len(layers) - 1):
        edges = [0] + [i + 1 for i, end in enumerate(ends) if end] + [len(layers)]
        parts = [group(layers, a, b - 1) for a, b in pairwise(edges)]
        if all(part.first == part.last or part.buffer_words <= buffer for part in parts):
            totals.append(sum(part.traffic_words for part in parts))
    assert best.total_words == min(totals)


def test_a_bigger_buffer_never_moves_more() -> None:
    layers = read_layers("resnet50")
    totals = [fused(layers, kib * 1024).total_words for kib in (0, 64, 1024, 16384)]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] == layer_by_layer(layers).total_words
    floor = layers[0].input_words + layers[-1].output_words + sum(x.weight_words for x in layers)
    assert totals[-1] >= floor
    assert fused(layers, 1e9, longest=len(layers)).total_words == floor


def test_bad_lists_are_refused_with_their_line(tmp_path: Path) -> None:
    header = "network,layer,shape,kind,instances,N,C,M,P,Q,R,S,stride,padding,operand,inputs\n"
    good = "x,a,a,matmul,1,1,4,4,4,1,1,1,1,0,weights,input\n"
    for bad, words in (
        ("x,b,b,matmul,1,1,4,4,zero,1,1,1,1,0,weights,a\n", "zero"),
        ("x,b,b,dense,1,1,4,4,4,1,1,1,1,0,weights,a\n", "dense"),
        ("x,b,b,matmul,1,1,4,4,4,1,1,1,1,0,weights,c\nx,c,c,matmul,1,1,4,4,4,1,1,1,1,0,weights,a\n", "earlier"),
        ("x,a,a,matmul,1,1,4,4,4,1,1,1,1,0,weights,input\n", "twice"),
    ):
        path = tmp_path / "n.csv"
        path.write_text(header + good + bad)
        with pytest.raises(InputError, match=f"n.csv:3.*{words}"):
            read_layers(path)
    with pytest.raises(InputError, match="resnet50"):
        read_layers("nothing")
