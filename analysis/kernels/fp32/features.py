"""Which numbers about a kernel on a GPU carry over to another GPU? Ratios, mostly, from the physical model."""

from __future__ import annotations

import numpy as np

from analysis.kernels.fp32.cases import OPS, Floats, Operators
from analysis.kernels.fp32.devices import Board
from analysis.kernels.fp32.physics import BYTES, Physics, choose_tiles, roofline, work

OP_COST = {"pow": 1.0, "powu": 2.0, "gelu": 1.0, "tanh": 1.0, "div": 0.5, "divu": 0.5}


def gemm_features(operators: Operators, gpu: Board, physics: Physics) -> Floats:
    """Twelve features of a matrix product."""
    o, todo, bound, t = operators, work(operators), roofline(operators, gpu, physics), choose_tiles(operators, gpu)
    operands = BYTES * (o.m * o.n + o.n * o.k)
    quantisation = np.ceil(t.waves) / t.waves
    padding = t.tiles * t.columns * t.rows / (o.b * o.m * o.k)
    traffic_s = t.tiles * (t.columns + t.rows) * o.n * BYTES / gpu.device.memory_bandwidth_bytes_per_s
    waves_s = bound.compute_s * quantisation * padding
    return np.column_stack(
        [
            np.log(bound.latency_s),
            np.log(bound.compute_s / bound.memory_s),
            np.log(todo.flop / todo.bytes),
            np.log2(todo.bytes / gpu.l2_bytes),
            np.log2(operands / gpu.l2_bytes),
            np.full(len(o), 0.0 if gpu.architecture.separate_integer_pipe else 1.0),
            np.log2(t.waves),
            quantisation,
            padding,
            np.log2(t.columns * t.rows),
            np.log(traffic_s / bound.compute_s),
            np.log(waves_s / bound.latency_s),
        ]
    )


def vector_features(operators: Operators, gpu: Board, physics: Physics) -> Floats:
    """Features of element-wise, softmax and layer-norm kernels.

    bytes_over_issue is the bandwidth over the rate at which arithmetic issues (half of the peak where addresses take the same slots);
    delivered_class is 1 for stacked memory behind the controllers of Volta and later, which deliver more of the peak than those before
    (Volta white paper: 1.5 times the delivered bandwidth of Pascal at 1.23 times the peak), 0 otherwise.
    """
    o, todo, bound = operators, work(operators), roofline(operators, gpu, physics)
    issue = gpu.device.vector_flop_per_s("fp32") * (1.0 if gpu.architecture.separate_integer_pipe else 0.5)
    resident = BYTES * o.h * gpu.sms * 8
    return np.column_stack(
        [
            np.log(bound.memory_s),
            np.log2(o.h),
            np.log2(o.b),
            np.log2(todo.bytes / gpu.l2_bytes),
            np.log2(o.b / gpu.sms),
            np.log2(resident / gpu.l2_bytes),
            np.full(len(o), float(np.log2(gpu.device.memory_bandwidth_bytes_per_s / issue))),
            o.streams,
            np.array([OP_COST.get(op, 0.0) for op in OPS])[o.op],
            np.full(len(o), 1.0 if gpu.device.memory_type.startswith("HBM") and gpu.architecture.separate_integer_pipe else 0.0),
        ]
    )
