"""Margins for rows of a new group, alone and in a `Calibration`."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nsac.uncertainty import Calibration, Prediction, conformal_margin, enough_groups, group_margin, groups_needed
from nsac.uncertainty.conformal import count_groups
from support import ALPHA


def grouped(n_groups, rows, generator, columns=()):
    """Errors of a prediction of 0 with std 1: an effect of the group, and noise. (n_groups, rows, *columns)."""
    effect = 2 * torch.randn(n_groups, 1, *columns, generator=generator)
    return effect + 0.5 * torch.randn(n_groups, rows, *columns, generator=generator)


def codes(n_groups, rows):
    return torch.arange(n_groups).repeat_interleave(rows)


def weighted_quantile(scores, groups, coverage):
    """The definition, for one column, in a loop."""
    pairs = [(s, g) for s, g in zip(scores.tolist(), groups.tolist(), strict=True) if s == s]
    sizes = {g: sum(h == g for _, h in pairs) for _, g in pairs}
    share = max(coverage, len(sizes) / (len(sizes) + 1))
    limit = max(sorted(s for s, g in pairs if g == group)[_own_rank(sizes[group], share)] for group in sizes)
    mass = 0.0
    for score, group in sorted(pairs):
        mass += 1 / ((len(sizes) + 1) * sizes[group])
        if mass >= coverage - 1e-9:
            return min(score, limit)
    return limit


def _own_rank(n, coverage):
    return -int(-(n * coverage - 1e-9) // 1) - 1


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.integers(0, 2**31))
def test_groups_of_one_row_have_the_ordinary_margin(n, coverage, seed):
    g = torch.Generator().manual_seed(seed)
    scores = torch.rand(n, 2, generator=g)
    scores[torch.rand(n, 2, generator=g) < 0.2] = torch.nan
    mine, ordinary = group_margin(scores, torch.randperm(n, generator=g), coverage), conformal_margin(scores, coverage)
    enough = ordinary.isfinite()
    assert torch.equal(mine[enough], ordinary[enough])


@given(st.integers(1, 40), st.integers(1, 15), st.floats(0.01, 0.99), st.integers(0, 2**31))
def test_the_margin_is_the_quantile_of_the_weighted_scores_or_that_of_the_worst_group(n, n_groups, coverage, seed):
    g = torch.Generator().manual_seed(seed)
    scores = torch.rand(n, 2, 3, generator=g)
    scores[torch.rand(n, 2, 3, generator=g) < 0.3] = torch.nan
    scores[0] = 0.5  # every column has a score
    groups = 7 * torch.randint(n_groups, (n,), generator=g) - 20
    margin = group_margin(scores, groups, coverage)
    for i in range(2):
        for j in range(3):
            assert margin[i, j].item() == weighted_quantile(scores[:, i, j], groups, coverage)


def test_new_groups_are_covered_where_the_ordinary_margin_fails(generator):
    """2000 calibration sets of 10 groups, each with a new group: the mean coverage of its rows, at least 0.9 or not."""
    groups = torch.cat([torch.zeros(200), codes(9, 5) + 1]).long()  # one group has most of the rows
    mine, ordinary = [], []
    for _ in range(2000):
        large, small = grouped(1, 200, generator).abs().flatten(), grouped(9, 5, generator).abs().flatten()
        scores, new = torch.cat([large, small]), grouped(1, 20, generator).abs()
        mine.append((new <= group_margin(scores, groups, 0.9)).double().mean())
        ordinary.append((new <= conformal_margin(scores, 0.9)).double().mean())
    assert stats.ttest_1samp(mine, 0.9, alternative="less").pvalue > ALPHA
    assert stats.ttest_1samp(ordinary, 0.9, alternative="less").pvalue < ALPHA


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_new_groups_of_twenty_have_at_least_nominal_coverage(coverage: float, generator):
    scores = grouped(20, 8, generator, (2000,)).abs()  # a column is a calibration set
    margin = group_margin(scores.flatten(0, 1), codes(20, 8), coverage)
    covered = (grouped(1, 8, generator, (2000,)).abs()[0] <= margin).double().mean(0)
    assert stats.ttest_1samp(covered.numpy(), coverage, alternative="less").pvalue > ALPHA
    assert covered.mean() < coverage + 0.1  # and is not much wider than needed


def test_too_few_groups_have_the_largest_quantile_of_a_group():
    scores = torch.tensor([1.0, 2, 3, 4, 10, 20, 30, 40, torch.nan])
    groups = torch.tensor([5, 5, 5, 5, 9, 9, 9, 9, 9])
    assert group_margin(scores, groups, 0.75).item() == 30
    assert group_margin(scores, groups, 0.76).item() == 40


@given(st.integers(1, 40), st.integers(1, 15), st.integers(0, 2**31))
def test_a_higher_coverage_never_has_a_smaller_margin(n, n_groups, seed):
    g = torch.Generator().manual_seed(seed)
    scores, groups = torch.rand(n, 2, generator=g), torch.randint(n_groups, (n,), generator=g)
    margins = torch.stack([group_margin(scores, groups, i / 40) for i in range(1, 40)])
    assert (margins.diff(dim=0) >= 0).all()


@pytest.mark.parametrize("n_groups", [6, 12, 30])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_new_groups_of_several_scales_are_covered_however_few_groups_there_are(n_groups, coverage, generator):
    """A column is a calibration set; the scale of the errors is lognormal over groups."""

    def errors(groups):
        scale = torch.randn(groups, 1, 2000, generator=generator).exp()
        return (scale * torch.randn(groups, 10, 2000, generator=generator)).abs()

    margin = group_margin(errors(n_groups).flatten(0, 1), codes(n_groups, 10), coverage)
    covered = (errors(1)[0] <= margin).double().mean(0)
    assert stats.ttest_1samp(covered.numpy(), coverage, alternative="less").pvalue > ALPHA
    assert covered.mean() < coverage + 0.15


@pytest.mark.parametrize(("coverage", "needed"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99), (0.91, 11)])
def test_a_coverage_needs_groups(coverage: float, needed: int):
    assert groups_needed(coverage) == needed
    assert enough_groups(needed, coverage) and not enough_groups(needed - 1, coverage)


def test_a_column_without_scores_has_an_infinite_margin():
    scores = torch.tensor([[1.0, torch.nan], [2.0, torch.nan]])
    assert group_margin(scores, torch.tensor([0, 1]), 0.5).tolist() == [2.0, torch.inf]
    assert group_margin(scores[:0], torch.zeros(0, dtype=torch.long), 0.5).tolist() == [torch.inf] * 2
    assert count_groups(scores, torch.tensor([0, 1])).tolist() == [2, 0]


@pytest.mark.parametrize("groups", [torch.zeros(3), torch.zeros(2).long(), torch.zeros(3, 1).long(), torch.ones(3) > 0])
def test_groups_that_are_no_codes_are_refused(groups: torch.Tensor):
    with pytest.raises(ValueError, match=r"`groups` must have one integer per row, shape \(3,\)"):
        group_margin(torch.ones(3), groups, 0.5)
    with pytest.raises(ValueError, match="`groups` must have one integer per row"):
        Calibration.from_tensors({"scale": torch.ones(1), "scores": torch.ones(3, 1), "groups": groups})


# Calibration


def problem(n_groups, rows, generator):
    y = grouped(n_groups, rows, generator, (2,)).flatten(0, 1)
    return Prediction.gaussian(torch.zeros_like(y), torch.ones_like(y)), y, codes(n_groups, rows) * 3 + 100


def test_a_calibration_with_groups_has_their_margin(generator):
    p, y, groups = problem(12, 5, generator)
    y[3, 0] = torch.nan
    c = Calibration.fit(p, y, groups)
    margin = group_margin(y.abs(), groups, 0.9)  # in predicted standard deviations, which are 1
    torch.testing.assert_close(c.interval(p, 0.9)[1], margin.expand(60, 2))
    torch.testing.assert_close(c.scale, Calibration.fit(p, y).scale, rtol=0, atol=0)


def test_groups_of_one_row_calibrate_as_no_groups(generator):
    p, y, _ = problem(50, 1, generator)
    mine, ordinary = Calibration.fit(p, y, torch.arange(50)), Calibration.fit(p, y)
    torch.testing.assert_close(mine.interval(p, 0.9), ordinary.interval(p, 0.9), rtol=0, atol=0)


def test_the_order_of_rows_does_not_change_a_calibration_with_groups(generator):
    p, y, groups = problem(12, 5, generator)
    order = torch.randperm(60, generator=generator)
    other = Calibration.fit(p[order], y[order], groups[order])
    torch.testing.assert_close(other.interval(p, 0.8), Calibration.fit(p, y, groups).interval(p, 0.8))


def test_too_few_groups_give_a_warning_that_names_their_number(generator):
    p, y, groups = problem(4, 30, generator)
    c = Calibration.fit(p, y, groups)
    with pytest.warns(UserWarning, match="4 groups of calibration are too few .* 0.9 .* at least 9 groups.*to 0.8"):
        lower, upper = c.interval(p, 0.9)
    assert lower.isfinite().all() and upper.isfinite().all()
    c.interval(p, 0.8)  # no warning


def test_a_calibration_with_groups_survives_its_tensors(generator):
    p, y, groups = problem(12, 5, generator)
    c = Calibration.fit(p, y, groups)
    again = Calibration.from_tensors(c.to_tensors())
    torch.testing.assert_close(c.interval(p, 0.5), again.interval(p, 0.5), rtol=0, atol=0)
    assert "groups" not in Calibration.fit(p, y).to_tensors()
