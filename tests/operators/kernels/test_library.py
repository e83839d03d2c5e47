"""The kernel library: shapes broadcast, types that are not covered are refused, nothing beats the data sheet."""

import numpy as np
import pytest

from analysis.errors import InputError
from analysis.kernels.library import KernelLibrary

LIBRARY = KernelLibrary.load()


def test_arguments_broadcast():
    answer = LIBRARY.on("h100_sxm").gemm(np.array([[1], [64]]), [4096, 8192, 128], 4096, "bf16")
    assert answer.s.shape == answer.log_sd.shape == answer.status.shape == (2, 3)
    assert np.isfinite(answer.s).all()


@pytest.mark.parametrize("dtype", ["fp64", "nonsense", "fp32"])
def test_a_type_that_is_not_covered_is_refused(dtype):
    answer = LIBRARY.on("h100_sxm").gemm(128, 128, 128, dtype)
    assert np.isnan(answer.s) and "not covered" in str(answer.status)


def test_a_card_without_the_type_is_refused():
    """The A100 has no FP8 rate and the H100 no FP4 rate (data sheets)."""
    assert np.isnan(LIBRARY.on("a100_sxm").gemm(128, 128, 128, "fp8").s)
    assert np.isnan(LIBRARY.on("h100_sxm").gemm(128, 128, 128, "nvfp4").s)


def test_unknown_names_are_errors():
    with pytest.raises(InputError, match="no device"):
        LIBRARY.on("h1000")
    with pytest.raises(InputError, match="engine"):
        LIBRARY.on("h100_sxm", framework="excel")
