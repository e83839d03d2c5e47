"""The weight simplex cut exactly, and the rubric's gaps found by enumeration."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, HalfspaceIntersection

from analysis.artifact.mtap import scoring
from analysis.artifact.mtap.gaps import Gap, component_gaps, merge, rubric_gaps
from analysis.artifact.mtap.rubric import Component, Rubric
from analysis.artifact.mtap.simplex import cut, order_shares, place_shares, share_ahead, whole_simplex
from analysis.configs import read_yaml
from analysis.paths import DATA

MTAP = DATA / "mtap"
PRINTED = read_yaml(MTAP / "printed.yaml", scoring.Printed)
GAPS = rubric_gaps(read_yaml(MTAP / "rubric.yaml", Rubric))
vectors = st.lists(st.integers(0, 3), min_size=5, max_size=5)


def test_share_by_hand_in_two_and_three_dimensions() -> None:
    # two weights: a ahead where 2 w1 > w2, that is w1 > 1/3
    assert share_ahead([2, 0], [0, 1]) == Fraction(2, 3)
    # three: w1 > w2, by symmetry a half
    assert share_ahead([1, 0, 0], [0, 1, 0]) == Fraction(1, 2)
    assert share_ahead([1, 1], [1, 1]) == 0
    assert share_ahead([2, 2, 2], [1, 2, 2]) == 1  # ahead wherever w1 > 0


@given(vectors, vectors)
def test_share_agrees_with_the_closed_form_for_distinct_differences(a: list[int], b: list[int]) -> None:
    """P(sum c_i E_i > 0) for exponential E_i: sum over c_i > 0 of prod_{j != i} c_i / (c_i - c_j), if all c differ."""
    c = [x - y for x, y in zip(a, b, strict=True)]
    if len(set(c)) < len(c):
        return
    want = sum((np.prod([Fraction(ci, ci - cj) for j, cj in enumerate(c) if j != i]) for i, ci in enumerate(c) if ci > 0), Fraction(0))
    assert share_ahead(a, b) == want


@settings(deadline=None)  # exact fractions take as long as the machine lets them
@given(vectors, vectors)
def test_shares_of_both_sides_add_up(a: list[int], b: list[int]) -> None:
    total = share_ahead(a, b) + share_ahead(b, a)
    assert total == (0 if a == b else 1)


@given(st.lists(vectors, min_size=2, max_size=4))
@settings(max_examples=30, deadline=None)
def test_orders_cover_the_simplex_once(tools: list[list[int]]) -> None:
    shares = order_shares({f"t{i}": v for i, v in enumerate(tools)})
    assert sum(shares.values()) == 1
    assert all(share > 0 for share in shares.values())


def test_cut_keeps_the_volume() -> None:
    above, below = cut(whole_simplex(5), [3, -1, -2, 1, 0])
    assert sum(c.share for c in above + below) == 1

    def volume(corners: tuple[tuple[Fraction, ...], ...]) -> float:
        p = np.array(corners, dtype=float)[:, :4]
        return abs(np.linalg.det(p[1:] - p[0]))

    whole = volume(whole_simplex(5).corners)
    for cell in above + below:
        assert volume(cell.corners) / whole == pytest.approx(float(cell.share), abs=1e-12)


def test_printed_order_shares_agree_with_qhull_and_with_drawing() -> None:
    """ASTRA-sim, VIDUR, Timeloop, NeuSight, nn-Meter as printed: 1/2, 1/4, 1/4 of all weightings."""
    grades = {t: p.vector for t, p in PRINTED.tools.items()}
    shares = order_shares(grades)
    assert sorted(shares.values()) == [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    drawn = np.random.default_rng(0).dirichlet(np.ones(5), size=40_000) @ np.array(list(grades.values())).T
    names = np.array(list(grades))
    for order, share in shares.items():
        hits = np.mean([tuple(names[np.argsort(-row)]) == order for row in drawn])
        assert hits == pytest.approx(float(share), abs=0.01)
        # the same region as a polytope in the first four weights, its volume by Qhull
        normals = [[x - y for x, y in zip(grades[a], grades[b], strict=True)] for a, b in itertools.pairwise(order)]
        rows = [[-(c[i] - c[4]) for i in range(4)] + [-c[4]] for c in normals]
        rows += [[-float(i == j) for j in range(4)] + [0.0] for i in range(4)] + [[1.0] * 4 + [-1.0]]
        inside = np.mean(
            [
                w
                for w, r in zip(np.random.default_rng(1).dirichlet(np.ones(5), 4000), range(4000), strict=True)
                if all(np.dot(c, w) > 1e-6 for c in normals)
            ],
            axis=0,
        )[:4]
        hull = ConvexHull(HalfspaceIntersection(np.array(rows), inside).intersections)
        assert hull.volume * 24 == pytest.approx(float(share), abs=1e-9)  # the whole simplex has volume 1/4!


def test_too_many_tools_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 7"):
        order_shares({str(i): [i % 4, i // 4, 0, 0, 0] for i in range(8)})


def test_places_add_up() -> None:
    places = place_shares({t: p.vector for t, p in PRINTED.tools.items()})
    assert all(sum(row) == 1 for row in places.values())
    assert places["nn-Meter"][4] == 1 and places["NeuSight"][3] == 1  # fourth and fifth whatever the weights
    assert places["ASTRA-sim"][0] == Fraction(3, 4)


def has(dimension: str, kind: str, *words: str) -> bool:
    return any(g.dimension == dimension and g.kind == kind and all(w in g.where + g.levels for w in words) for g in GAPS)


def test_the_known_gaps_are_found_by_enumeration() -> None:
    """Requirement 20 and ledger rows s000.rub.d1.m, s000.rub.d2.hole, s000.sec61.d1formula, s000.rub.d4.hole."""
    assert has("D2", "no level", "gamma >= 0.1 and <= 0.2", "validated: yes")
    assert has("D1 g_mape", "redundant", "clause 2 of 2", "M")
    assert has("D1 g_rho", "undefined", "M, L, F")
    assert has("D4", "no level", "minutes_to_first_prediction = 120")
    assert has("D1 g_mape", "no level", "error_percent = 25")


def test_gaps_that_the_ledger_does_not_know() -> None:
    assert has("D2", "contradiction", "M and F")  # a single-level tool does not compose, and so earns Fail as well
    assert has("D2", "no level", "validated: no", "gamma <= 0.2")
    assert has("D5", "no level", "retrain")
    assert {g.where.split(":")[0] for g in GAPS if g.kind == "not read"} == {
        *("max_error_percent", "scaling", "gap_kernel_error", "gap_inter_kernel_overhead", "gap_communication_error"),
        *("temporal_stability", "documentation", "interface"),
    }


def test_a_rubric_without_the_hole_does_not_report_it(tmp_path: object) -> None:
    from analysis.artifact.mtap.rubric import Condition

    rubric = read_yaml(MTAP / "rubric.yaml", Rubric)
    d2 = rubric.dimensions["D2"]
    component = d2.components["g_composition"]
    low = Condition.model_validate({"all": [{"item": "composes", "is": True}, {"item": "gamma", "at_least": 0.10}]})
    levels = tuple(level.model_copy(update={"when": low}) if level.grade == 1 else level for level in component.levels)
    mended = rubric.model_copy(
        update={
            "dimensions": rubric.dimensions
            | {"D2": d2.model_copy(update={"components": {"g_composition": component.model_copy(update={"levels": levels})}})}
        }
    )
    before = [g for g in GAPS if g.dimension == "D2" and g.kind == "no level" and "validated: yes" in g.where]
    after: list[Gap] = [g for g in rubric_gaps(mended) if g.dimension == "D2" and g.kind == "no level" and "validated: yes" in g.where]
    assert before and not after


@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), max_size=18))
def test_merged_boxes_cover_the_same_cells_once(cells: set[tuple[int, int, int]]) -> None:
    boxes = merge({tuple(frozenset({i}) for i in cell) for cell in cells})
    covered = [(a, b, c) for box in boxes for a in box[0] for b in box[1] for c in box[2]]
    assert sorted(covered) == sorted(cells)


def gaps_of(dimension: str, *levels: dict[str, object]) -> list[tuple[str, str, str]]:
    given = {"levels": [{"says": "", **level} for level in levels], "no_level": {"grade": 0, "reading": ""}}
    return [(gap.kind, gap.where, gap.levels) for gap in component_gaps(dimension, "g", Component.model_validate(given))]


def gamma(**test: float) -> dict[str, object]:
    return {"item": "gamma", **test}


def test_gaps_of_small_rubrics_by_hand() -> None:
    undefined = "no threshold is given for these grades"
    # High below 0.1, Medium at 0.2, Low from 0.2 on: nothing from 0.1 to 0.2, and Medium lies within Low
    assert gaps_of(
        "D2",
        {"grade": 3, "when": gamma(below=0.1)},
        {"grade": 2, "when": {"all": [gamma(at_most=0.2), gamma(at_least=0.2)]}},
        {"grade": 1, "when": gamma(at_least=0.2)},
    ) == [("no level", "gamma >= 0.1 and < 0.2", "-"), ("undefined", undefined, "F")]
    # what is below 0.1 is below 0.2: High is Fail too
    assert gaps_of("D2", {"grade": 3, "when": gamma(below=0.1)}, {"grade": 0, "when": gamma(below=0.2)}) == [
        ("no level", "gamma >= 0.2", "-"),
        ("contradiction", "whatever earns H earns F too", "H and F"),
        ("undefined", undefined, "M, L"),
    ]
    # both between 0.1 and 0.2
    assert gaps_of("D2", {"grade": 3, "when": gamma(below=0.2)}, {"grade": 1, "when": gamma(above=0.1)}) == [
        ("two levels at once", "gamma > 0.1", "H and L"),
        ("undefined", undefined, "M, F"),
    ]
    # there is no count between 0, 1 and 2; at most one patch is at most two; two levels of one grade that nothing beats are reachable
    patches = "source_patches"
    assert gaps_of(
        "D4",
        {"grade": 3, "when": {"item": patches, "at_most": 0}},
        {"grade": 2, "when": {"any": [{"item": patches, "at_most": 2}, {"item": patches, "at_most": 1}]}},
        {"grade": 0, "when": {"item": patches, "above": 2}},
    ) == [("undefined", undefined, "L"), ("redundant", "clause 2 of 2 holds only where clause 1 holds too", "M")]
    # Medium lies within High and is never the highest; asked first, Fail takes all that High has
    assert gaps_of("D2", {"grade": 2, "when": gamma(below=0.1)}, {"grade": 3, "when": gamma(below=0.2)}) == [
        ("no level", "gamma >= 0.2", "-"),
        ("two levels at once", "gamma < 0.1", "H and M"),
        ("unreachable", "whatever earns it earns a higher level too", "M"),
        ("undefined", undefined, "L, F"),
    ]
    assert gaps_of("D2", {"grade": 3, "when": gamma(below=0.2)}, {"grade": 0, "first": True, "when": gamma(below=0.2)}) == [
        ("no level", "gamma >= 0.2", "-"),
        ("contradiction", "whatever earns H earns F too", "H and F"),
        ("unreachable", "whatever earns it earns a higher level too", "H"),
        ("undefined", undefined, "M, L"),
    ]
    # choices and flags
    assert gaps_of(
        "D4", {"grade": 3, "when": {"item": "container", "in": ["yes"]}}, {"grade": 0, "when": {"item": "ci_tested", "is": False}}
    )[:2] == [
        ("no level", "container: partial or no; ci_tested: yes", "-"),
        ("two levels at once", "container: yes; ci_tested: no", "H and F"),
    ]
