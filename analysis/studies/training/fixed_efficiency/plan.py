"""Plans and programs of the baseline."""

from __future__ import annotations

from analysis.training import config
from analysis.training.config import Software
from analysis.workloads import models


class Plan(config.Plan):
    """A parallel plan, with what the baseline asks of it."""

    def stage_layers(self, layers: int, stage: int) -> int:
        """Layers of a pipeline stage (count)."""
        if not self.ends_as_layers:
            return layers // self.pipeline_parallel
        ends = (stage == 0) + (stage == self.pipeline_parallel - 1)
        return (layers + 2) // self.pipeline_parallel - ends

    @property
    def microbatches(self) -> int:
        """Microbatches that each pipeline runs in a step: global_batch / (data_parallel x microbatch)."""
        return self.global_batch // (self.data_parallel * self.microbatch)

    @property
    def tokens(self) -> int:
        """Tokens of one microbatch."""
        return self.microbatch * self.sequence_length


MEGATRON_2021 = Software(
    dtype="fp16",
    attention="unfused",
    dropout=True,
    gradient_bytes=2,
    fused_gradients=False,
    overlap_tensor=False,
    overlap_data=False,
    overlap_pipeline=False,
)
"""Megatron-LM as of Narayanan et al., SC 2021."""

MEGATRON_2022 = MEGATRON_2021.model_copy(update={"fused_gradients": True, "overlap_tensor": True})
"""Megatron-LM as of Korthikanti et al. 2022: backward collectives run beside weight gradients, which accumulate in place."""


def padded_vocab(model: models.Model, plan: Plan) -> int:
    """Rows of the output layer: the vocabulary, or, where that does not divide, the next multiple of 128 on each of its parts (tokens).

    Source: Megatron-LM, `_vocab_size_with_padding` with its default `make_vocab_size_divisible_by` of 128.
    """
    t = plan.tensor_parallel
    return model.vocabulary if model.vocabulary % t == 0 else -(-model.vocabulary // (128 * t)) * 128 * t
