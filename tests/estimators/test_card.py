import copy
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from nsac import NSACForecaster, NSACRegressor, load
from nsac.estimators.card import escape, model_card
from nsac.estimators.files import CARD, ModelError
from support.table_problems import mixed, quick

NASTY = "a|b `c` *d* <script>alert(1)</script> [e](http://f) _g_ \\ &lt; $h$"
ROWS = 60


def rendered(card: str) -> str:
    return MarkdownIt("commonmark").enable("table").render(card)


def saved_card(model, folder) -> str:
    model.save(folder)
    return (folder / CARD).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def table():
    """Numbers, dates and categories, whose names and values are full of markup."""
    random = np.random.default_rng(0)
    dates = pd.date_range("2024-01-01", periods=ROWS).astype(str)
    frame = pd.DataFrame({NASTY: random.normal(size=ROWS), "day": dates, "c": random.choice(["x", "<b>|</b>"], ROWS)})
    return frame, pd.Series(np.exp(random.normal(size=ROWS) + frame[NASTY]), name="_y_")


@pytest.fixture(scope="module")
def stacked(table):
    with pytest.warns(UserWarning, match="holds dates"):
        model = NSACRegressor(target_range=(0, None), random_state=0, training={"max_steps": 2})
        return model.fit(*table, groups=np.arange(ROWS) // 20)


@pytest.fixture(scope="module")
def series():
    times = pd.date_range("2024-01-01", periods=300, freq="h")
    values = np.sin(np.arange(300) * np.pi / 12) + 0.1 * np.random.default_rng(1).normal(size=300)
    values[5:8] = np.nan
    return pd.DataFrame({"when": times, "level": values, "name": "a"})


@pytest.fixture(scope="module", params=["grid", "events"])
def forecaster(request, series):
    frame, settings = series, {"method": "ridge", "random_state": 0}
    if request.param == "events":
        frame, settings = series.dropna(), {"training": {"max_steps": 2}, "members": 1, "random_state": 0}
    return NSACForecaster(4, 12, "level", "when", "name", encoding=request.param, **settings).fit(frame)


def test_a_loaded_model_has_the_same_card(stacked, forecaster, tmp_path):
    for model in (stacked, forecaster):
        folder = tmp_path / type(model).__name__
        card = saved_card(model, folder)
        assert saved_card(load(folder), folder) == card


def test_names_are_shown_as_they_are_and_are_no_markup(stacked, tmp_path):
    page = rendered(saved_card(stacked, tmp_path / "model"))
    assert not re.search("<script|<a |<em>|<b>", page)
    cells = re.findall("<td>(.*?)</td>", page)
    unescaped = [c.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for c in cells]
    assert NASTY.replace("&lt;", "<") in [c.replace("&lt;", "<") for c in unescaped]


@pytest.mark.parametrize("text", ["two\nlines", "tab\there", "nul\0", "x" * 500])
def test_a_name_is_one_short_line(text):
    assert escape(text).isprintable() and len(escape(text)) <= 80


def test_the_card_of_a_table_has_rows_columns_groups_and_scale(stacked, tmp_path):
    card = saved_card(stacked, tmp_path / "model")
    assert f"- Rows: {ROWS}\n" in card and "- Groups: 3" in card and "within the bounds 0 and none" in card
    assert "| day | date | 2024-01-01 to 2024-02-29 |" in card and "| c | category | 2:" in card
    assert "explained share of the variance" in card and "new groups are exchangeable" in card


def test_the_range_of_a_number_is_that_of_its_training_values(stacked, table, tmp_path):
    found = re.search(r"\| number \| (\S+) to (\S+) \|", saved_card(stacked, tmp_path / "model"))
    assert found is not None
    values = table[0][NASTY]
    assert [float(each) for each in found.groups()] == pytest.approx([values.min(), values.max()], rel=1e-3)


def test_the_score_of_a_table_is_the_error_of_its_left_out_rows(tmp_path):
    random = np.random.default_rng(2)
    x = random.normal(size=(200, 1))
    y = pd.Series(x[:, 0] + 0.5 * random.normal(size=200) - 3, name="y")
    card = saved_card(NSACRegressor(random_state=0, training={"max_steps": 2}).fit(x, y), tmp_path / "model")
    found = re.search(r"\| y \| (\S+) \| (\S+) \|", card)
    assert found is not None
    share, rmse = (float(each) for each in found.groups())
    assert share == pytest.approx(1 - rmse**2 / y.var(ddof=0), abs=2e-3) and rmse == pytest.approx(0.5, abs=0.08)


def test_a_model_without_ranges_has_means_and_no_scores(tmp_path):
    card = saved_card(quick(method="ridge").fit(*mixed()), tmp_path / "model")
    assert re.search(r"\| width \| number \| mean \S+, standard deviation \S+ \|", card)
    assert "None were recorded" in card


def test_columns_of_groups_and_weights_and_rows_without_a_target_are_in_the_card(stacked):
    model = copy.deepcopy(stacked)
    model.data_ |= {"dropped": 3, "groups": "machine", "weights": "hours"}
    card = model_card(model, {"nsac": "1.2.3"})
    assert "without 3 whose target was missing" in card and "- Sample weights: column hours" in card
    assert "- Groups (column machine): 3" in card and "- nsac 1.2.3" in card


def test_too_few_rows_for_a_coverage_have_no_margin(tmp_path):
    card = saved_card(quick(method="ridge").fit(*mixed(60)), tmp_path / "model")
    assert "| 95 % | too few rows |" in card


def test_the_card_of_a_forecaster_has_times_steps_and_missing_values(forecaster, tmp_path):
    card = saved_card(forecaster, tmp_path / "model")
    assert "- Times: 2024-01-01 00:00:00 to 2024-01-13 11:00:00" in card and "of 1 series" in card
    assert "forecasts of 4 steps from the last 12" in card and "| time | when |" in card
    assert f"- Missing values of level: {forecaster.data_['missing']['level']}" in card


def test_a_generator_as_random_state_is_not_in_the_card(tmp_path):
    model = quick(method="ridge", random_state=np.random.RandomState(0)).fit(*mixed())
    assert "`random_state`: none" in saved_card(model, tmp_path / "model")


def test_a_card_that_was_edited_or_removed_does_not_matter(stacked, tmp_path):
    folder = tmp_path / "model"
    stacked.save(folder)
    (folder / CARD).write_text("mine")
    load(folder)
    (folder / CARD).unlink()
    load(folder).save(folder)


def test_a_folder_with_nothing_but_a_card_is_not_replaced(stacked, tmp_path):
    folder = tmp_path / "model"
    stacked.save(folder)
    shutil.move(folder / CARD, tmp_path / "card")
    shutil.rmtree(folder)
    folder.mkdir()
    shutil.move(tmp_path / "card", folder / CARD)
    with pytest.raises(ModelError, match="has other content"):
        stacked.save(folder)
