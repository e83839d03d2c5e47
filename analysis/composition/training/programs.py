"""What does a training program do by default? Sharding, recomputation, kernels and attention of each known program, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Attention = Literal["written_out", "flash_1", "flash_2", "latest"]


@dataclass(frozen=True)
class Program:
    """A program's defaults.

    Attributes:
        words: what is assumed of it, for a reader.
        zero: what is sharded over the data-parallel group: nothing, optimizer states, gradients too, weights too (0 to 3).
        recompute: none, selective or full.
        attention: the attention kernel; latest: the fastest that the kernel tables hold for the device.
        sequence_parallel: norms and residuals are cut over the tensor-parallel group too.
    """

    words: str
    zero: int = 1
    recompute: str = "none"
    attention: Attention = "latest"
    sequence_parallel: bool = True


PROGRAMS = {
    "megatron_2021": Program(
        "Megatron of 2021 to 2023: attention written out, dropout, no overlap", 0, "full", "written_out", sequence_parallel=False
    ),
    "megatron": Program("Megatron-LM: sequence parallelism, fused attention"),
    "nemo": Program("NeMo: Megatron's core"),
    "llm_foundry": Program("llm-foundry of 2023: PyTorch FSDP, FlashAttention 1", 3, attention="flash_1"),
    "fsdp": Program("PyTorch FSDP, not compiled", 3, attention="flash_2"),
    "fsdp_compiled": Program("PyTorch FSDP with torch.compile", 3, attention="flash_2"),
    "nanotron": Program("nanotron: data parallel without sharding", 0, attention="flash_2"),
    "deepspeed": Program("DeepSpeed: the stage is the configuration's, 0 by default", 0, attention="flash_2"),
    "maxtext": Program("MaxText: fully sharded, blocks recomputed", 3, "full"),
    "internevo": Program("InternEvo: optimizer states sharded", 1, attention="flash_2"),
    "colossalai": Program("ColossalAI: optimizer states sharded", 1, attention="flash_2"),
    "primus": Program("Primus: Megatron's core on AMD"),
    "other": Program("a program of no known name: as PyTorch without compilation, optimizer states sharded", 1, attention="flash_2"),
}
"""Known programs. zero and recompute: documentation of each (docs.nvidia.com/megatron-core: use_distributed_optimizer in its examples;
docs.pytorch.org/docs/stable/fsdp.html: FULL_SHARD; deepspeed.ai/docs/config-json: stage 0; maxtext base.yml: remat_policy full;
InternEvo configs: zero1; github.com/huggingface/nanotron: zero_stage 0, recompute_layer false)."""

SPELLINGS = {
    "megatronlm": "megatron",
    "megatroncore": "megatron",
    "mcore": "megatron",
    "megatronbridge": "megatron",
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
