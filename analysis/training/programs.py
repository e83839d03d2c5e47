"""What does a training program do by default? Sharding, recomputation, kernels, overlap and what it keeps, of each known program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Attention = Literal["written_out", "flash_1", "flash_2", "latest"]
Kernels = Literal["old", "eager", "compiled", "fused"]


@dataclass(frozen=True)
class Program:
    """A program's defaults.

    Attributes:
        words: what is assumed of it, for a reader.
        zero: what is sharded over the data-parallel group: nothing, optimizer states, gradients too, weights too (0 to 3).
        recompute: none, selective or full.
        selective: what selective recomputation repeats: the core of attention, or half of the products and all kernels bound by memory.
        attention: the attention kernel; latest: the fastest that the kernel tables hold for the device.
        kernels: how memory-bound operators run: old (Megatron of 2021), eager (one kernel each), compiled or fused.
        fused_norms: whether norms and position embedding are single kernels all the same.
        sequence_parallel: norms and residuals are cut over the tensor-parallel group too.
        tensor_overlap: whether collectives of tensor parallelism run beside products.
        reduce_overlap: whether gradients are reduced during the backward pass; collect_overlap: whether updated weights are gathered beside
            the next forward pass.
        reduced_bytes: of a gradient on the network; held_bytes: of gradients in memory; bucket_bytes: of a message (0: a block's), and at
            least bucket_bytes_per_replica for each data-parallel replica.
        output_layer: on the last stage, or dealt to the stages with the blocks by its cost.
        loss_bytes: traffic of a logit in output layer and loss;
            logit_bytes: its memory at the peak.
        step_bytes: of a weight in copies and temporaries of the optimizer's step, sharded as its states are.
        split_copies: whether queries and gates, made by one product, are cut apart and copied.
        gated: whether all its models have gated feed-forward layers.
        log: whose memory its log has: the fullest GPU's, or the last stage's.
    """

    words: str
    zero: int = 1
    recompute: str = "none"
    selective: Literal["core", "half"] = "core"
    attention: Attention = "latest"
    kernels: Kernels = "fused"
    fused_norms: bool = True
    sequence_parallel: bool = True
    tensor_overlap: bool = True
    reduce_overlap: bool = True
    collect_overlap: bool = True
    reduced_bytes: float = 4.0
    held_bytes: float = 4.0
    bucket_bytes: float = 160e6
    bucket_bytes_per_replica: float = 0.0
    output_layer: Literal["last", "dealt"] = "last"
    loss_bytes: float = 26.0
    logit_bytes: float = 10.0
    step_bytes: float = 0.0
    split_copies: bool = False
    gated: bool = False
    log: Literal["fullest", "last"] = "fullest"


_FSDP = Program(
    "PyTorch FSDP, not compiled",
    3,
    selective="half",
    attention="flash_2",
    kernels="eager",
    fused_norms=False,
    tensor_overlap=False,
    bucket_bytes=0.0,
    loss_bytes=34.0,
    logit_bytes=16.0,
)

PROGRAMS = {
    "megatron_2021": Program(
        "Megatron of 2021 to 2023: attention written out, dropout, no overlap",
        0,
        "full",
        attention="written_out",
        kernels="old",
        sequence_parallel=False,
        tensor_overlap=False,
        reduce_overlap=False,
        collect_overlap=False,
        reduced_bytes=2.0,
        held_bytes=2.0,
        loss_bytes=36.0,
    ),
    "megatron": Program("Megatron-LM: sequence parallelism, fused attention", bucket_bytes_per_replica=4e6),
    "nemo": Program(
        "NeMo and Megatron-Bridge: Megatron's core, gradients in 16 bits as in NVIDIA's performance recipes",
        reduced_bytes=2.0,
        held_bytes=2.0,
        bucket_bytes_per_replica=4e6,
    ),
    "llm_foundry": Program(
        "llm-foundry of 2023: PyTorch FSDP, FlashAttention 1",
        3,
        selective="half",
        attention="flash_1",
        tensor_overlap=False,
        reduced_bytes=2.0,
        bucket_bytes=0.0,
        loss_bytes=12.0,
        logit_bytes=10.0,
    ),
    "fsdp": _FSDP,
    "fsdp_compiled": Program(
        "PyTorch FSDP with torch.compile",
        3,
        selective="half",
        attention="flash_2",
        kernels="compiled",
        tensor_overlap=False,
        bucket_bytes=0.0,
        loss_bytes=12.0,
        logit_bytes=14.0,
    ),
    "nanotron": Program(
        "nanotron: data parallel without sharding, gradients kept in fp32 too",
        0,
        attention="flash_2",
        kernels="eager",
        tensor_overlap=False,
        collect_overlap=False,
        held_bytes=6.0,
        bucket_bytes=25e6,
        output_layer="dealt",
        loss_bytes=34.0,
        logit_bytes=14.0,
        split_copies=True,
        gated=True,
    ),
    "deepspeed": Program(
        "DeepSpeed: the stage is the configuration's, 0 by default",
        0,
        attention="flash_2",
        kernels="eager",
        fused_norms=False,
        tensor_overlap=False,
        collect_overlap=False,
        reduced_bytes=2.0,
        bucket_bytes=1e9,
        loss_bytes=34.0,
        logit_bytes=16.0,
    ),
    "maxtext": Program("MaxText: fully sharded, blocks recomputed", 3, "full", bucket_bytes=0.0),
    "internevo": Program(
        "InternEvo: optimizer states sharded",
        1,
        attention="flash_2",
        kernels="eager",
        tensor_overlap=False,
        collect_overlap=False,
        reduced_bytes=2.0,
        held_bytes=2.0,
        bucket_bytes=512e6,
        loss_bytes=34.0,
        logit_bytes=16.0,
        step_bytes=14.0,
        gated=True,
    ),
    "colossalai": Program(
        "ColossalAI: optimizer states sharded",
        1,
        attention="flash_2",
        kernels="eager",
        tensor_overlap=False,
        collect_overlap=False,
        reduced_bytes=2.0,
        held_bytes=2.0,
        bucket_bytes=24e6,
        loss_bytes=34.0,
        logit_bytes=16.0,
    ),
    "primus": Program(
        "Primus: Megatron's core on AMD, gradients in 16 bits",
        tensor_overlap=False,
        reduced_bytes=2.0,
        held_bytes=2.0,
        bucket_bytes_per_replica=4e6,
        log="last",
    ),
    "other": Program(
        "a program of no known name: as PyTorch without compilation, optimizer states sharded",
        1,
        selective="half",
        attention="flash_2",
        kernels="eager",
        fused_norms=False,
        tensor_overlap=False,
        collect_overlap=False,
        bucket_bytes=25e6,
        loss_bytes=34.0,
        logit_bytes=16.0,
    ),
}
"""Known programs. zero, recompute, bucket and gradient types: the documentation or source of each.
docs.nvidia.com/megatron-core: use_distributed_optimizer, accumulate_allreduce_grads_in_fp32, buckets of 40 million weights or a million for
each replica. docs.pytorch.org/docs/stable/fsdp.html: FULL_SHARD. github.com/pytorch/torchtitan: mixed_precision_reduce float32,
selective_ac_option op. deepspeed.ai/docs/config-json: stage 0, reduce_bucket_size 5e8. github.com/AI-Hypercomputer/maxtext, base.yml:
remat_policy full. github.com/NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs: grad_reduce_in_fp32 False.
github.com/InternLM/InternEvo, configs: zero1, reduce_bucket_size 512 MiB; hybrid_zero_optim.py, _step: gradients flattened in 16 bits (2),
copied in 32 (4), root and quotient of AdamW's denominator of the one flat tensor (8). github.com/huggingface/nanotron: zero_stage 0,
accumulate_grad_in_fp32, bucket_cap_mb 25, recompute_layer false, get_block_compute_costs. github.com/hpcaitech/ColossalAI:
LowLevelZeroPlugin, reduce_bucket_size_in_m 12. github.com/AMD-AGI/Primus, docs/03-configuration-reference/megatron-parameters.md:
accumulate_allreduce_grads_in_fp32 false; patches/training_log/print_rank_last_patches.py.
tensor_overlap: tp_comm_overlap in NeMo's and Megatron-Bridge's recipes; an option elsewhere
(async_tensor_parallel). loss_bytes of an eager loss: cast 6, log_softmax 12, its gradient 12, cast back 6
(torch.nn.functional.cross_entropy on .float())."""

SPELLINGS = {
    "megatronlm": "megatron",
    "megatroncore": "megatron",
    "mcore": "megatron",
    "megatronbridge": "nemo",
    "nvidianemo": "nemo",
    "llmfoundry": "llm_foundry",
    "composer": "llm_foundry",
    "pytorchfsdp": "fsdp",
    "fsdp2": "fsdp",
    "torchtitan": "fsdp_compiled",
    "internlm": "internevo",
}
"""Other spellings, letters and digits alone."""


def known(text: str) -> str | None:
    """The known program that a cell names; None where it names none."""
    plain = "".join(letter for letter in text.lower() if letter.isalnum())
    return {name.replace("_", ""): name for name in PROGRAMS}.get(plain) or SPELLINGS.get(plain)
