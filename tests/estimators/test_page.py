import numpy as np
import pytest
import torch

from nsac import Prediction
from nsac.estimators.evaluation import evaluate_rows
from nsac.estimators.page import page, summary


def evaluation(name="y", draws=5, dated=False, steps=1):
    g = torch.Generator().manual_seed(0)
    n, lead = 60, torch.arange(60) % steps + 1
    p = Prediction(torch.randn(draws, n, generator=g), torch.zeros(draws, n))
    y = p.mean + torch.randn(n, generator=g)
    place = np.datetime64("2024-01-01", "ns") + np.arange(n) * np.timedelta64(1, "h") if dated else None
    baseline = Prediction.gaussian(torch.zeros(n), torch.full((n,), 2.0))
    far = Prediction.gaussian(torch.full((n,), 9.0), torch.ones(n))
    return evaluate_rows(
        name, p, (p.mean - 2, p.mean + 2), y, {"the <mean>": baseline, "far": far}, place,
        lead if dated else None, lead == 1 if dated else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "figures"),
    [({}, 3), ({"draws": 1}, 2), ({"dated": True, "steps": 3}, 4)],  # a table, no epistemic variance, a forecast
)
def test_a_page_has_its_figures(settings, figures):
    assert page("t", [], [evaluation(**settings)]).count("<img ") == figures


def test_text_of_the_user_is_escaped():
    text = page("a < b", ["<script>"], [evaluation()])
    assert "<script>" not in text and "a &lt; b" in text and "the &lt;mean&gt;" in text


def test_several_targets_have_headings():
    text = page("t", [], [evaluation("a"), evaluation("b")])
    assert "<h2>a</h2>" in text and "<h2>b</h2>" in text


def test_the_summary_compares_with_the_best_baseline_and_counts_covered_values():
    e = evaluation()
    covered = int(((e.lower <= e.y) & (e.y <= e.upper)).sum())
    assert f"covered {covered} of 60 values" in summary(e) and "than that of the <mean>" in summary(e)
