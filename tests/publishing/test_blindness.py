"""A page says "unseen", "blind" or "no fit saw" only of what a test shows to be so."""

import re

import pytest

from analysis.paths import ROOT

CLAIM = re.compile(r"\b(unseen|never s(een|aw)|no fit saw|not (been )?seen|blind(ly)?)\b", re.IGNORECASE)
COVERED = {
    "energy_per_token.md": "tests/composition/energy/test_energy.py::test_no_fit_knows_this_source",
    "operators_basic_blocks.md": "tests/operators/test_basic_blocks.py::test_an_unseen_instruction_leaves_no_trace_in_the_answer",
    "operators_kernels.md": "tests/operators/test_kernel_blind.py::test_tiles_of_the_gpu_left_out_do_not_matter",
    "networks_measured.md": "tests/networks_measured/test_blind.py::test_no_left_out_machine_tells_the_fit_of_its_links",
    "one_tool.md": "tests/operators/test_kernels.py::test_splits_never_share_what_they_leave_out",
}
OTHER_MEANING = {
    "approaches_edge_cpu.md": "HELP's own words of its devices",
    "cores_programs.md": "a signature that is blind to order",
    "threats.md": "cases are predicted before their result is looked up",
}


def text_of(page: str) -> str:
    """A page without code, numbers' keys and links."""
    text = (ROOT / "book" / page).read_text(encoding="utf-8")
    return re.sub(r"```.*?```|\{num\}`[^`]*`|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "book").glob("*.md")))
def test_claims_of_blindness_are_covered(page: str) -> None:
    found = [match[0] for match in CLAIM.finditer(text_of(page))]
    assert not found or page in COVERED or page in OTHER_MEANING, f"{page} says {found}: name the test that shows it, or say 'left out'"


@pytest.mark.parametrize("page", sorted(COVERED))
def test_the_tests_that_cover_them_exist(page: str) -> None:
    file, name = COVERED[page].split("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
