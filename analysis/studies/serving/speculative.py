"""When does speculative decoding pay?

A small model proposes g tokens one after another, the large one checks them all in a single pass and keeps those before the first refusal,
and one of its own. If each proposal is accepted with probability a, apart from the others, a round yields

    E = (1 - a^(g + 1)) / (1 - a)   tokens (g + 1 where a = 1)

and takes g steps of the small model and one of the large with g + 1 tokens a request.

Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding, ICML 2023, equation 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.serving.step_time.roofline import Roofline, output_layer_s, tokens_s


@dataclass(frozen=True)
class Round:
    """One round for a batch of requests.

    Attributes:
        draft_s, verify_s: seconds of all the small model's steps, and of the large model's check.
        tokens: expected tokens of each request.
        plain_s: seconds of the large model's plain decode step of the same batch.
        speedup: plain seconds a token over speculative seconds a token.
    """

    draft_s: float
    verify_s: float
    tokens: float
    plain_s: float

    @property
    def speedup(self) -> float:
        """Plain over speculative time a token; below 1 speculation loses."""
        return self.plain_s * self.tokens / (self.draft_s + self.verify_s)


def expected_tokens(acceptance: float, proposals: int) -> float:
    """Expected tokens of a round, 1 to proposals + 1.

    Args:
        acceptance: probability that a proposal is accepted, 0 to 1, the same for all and independent.
        proposals: tokens proposed in a round.
    """
    if not 0 <= acceptance <= 1:
        raise InputError(f"expected a probability, got {acceptance}", key="acceptance")
    if proposals < 0:
        raise InputError(f"expected a number of tokens, not negative, got {proposals}", key="proposals")
    return float(sum(acceptance**k for k in range(proposals + 1)))


def decode_s(setting: Roofline, requests: int, tokens_each: int, cached: float) -> float:
    """Seconds of a step in which each request takes so many tokens and reads its cache once.

    Args:
        requests: requests in the batch.
        tokens_each: tokens of each.
        cached: cached tokens of each.
    """
    dense = float(tokens_s(setting, np.array([float(requests * tokens_each)]))[0])
    cache_bytes = requests * cached * setting.kv_bytes_per_token
    pairs = 4.0 * setting.model.layers * setting.model.attention_width * requests * tokens_each * cached
    return setting.fixed_s + output_layer_s(setting) + dense + max(cache_bytes / setting.memory_bytes_per_s, pairs / setting.flop_per_s)


def speculative_round(large: Roofline, small: Roofline, requests: int, proposals: int, acceptance: float, cached: float = 512.0) -> Round:
    """One round for a batch.

    Args:
        large, small: the model that decides and the model that proposes, each with its device.
        requests: requests in the batch.
        proposals, acceptance: see `expected_tokens`.
        cached: cached tokens of each request.
    """
    return Round(
        draft_s=proposals * decode_s(small, requests, 1, cached),
        verify_s=decode_s(large, requests, proposals + 1, cached),
        tokens=expected_tokens(acceptance, proposals),
        plain_s=decode_s(large, requests, 1, cached),
    )
