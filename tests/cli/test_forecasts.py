import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nsac.cli import forecasts
from nsac.cli.main import app
from nsac.cli.tables import TableError
from support.cli import call
from support.events import stays
from support.series import daily_cycle, ridge

FILE = Path("series.csv")


@pytest.fixture(scope="module")
def fitted():
    return ridge().fit(daily_cycle())


@pytest.fixture(scope="module")
def evaluation(fitted):
    return forecasts.evaluate(fitted, daily_cycle(300, seed=1))[0]


def test_a_forecaster_is_fitted_to_all_rows():
    settings = {"time": "t", "horizon": 6, "lookback": 12, "method": "ridge"}
    model, rows = forecasts.fit(daily_cycle(), ["y"], settings)
    assert rows == 260 and model.target == "y"


def test_the_coverage_names_the_interval(fitted):
    assert "upper_80" in forecasts.predict(fitted, daily_cycle(), 0.8)


def test_missing_last_values_are_a_note(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    frame = daily_cycle()
    frame.loc[255:, "y"] = np.nan
    frame.to_csv(tmp_path / "series.csv", index=False)
    result = CliRunner().invoke(app, ["predict", str(tmp_path / "model"), str(tmp_path / "series.csv")])
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == 7
    assert "Note: The last 5 values of 'y' are missing; intervals are wider.\n" in result.stderr


def test_a_file_must_have_the_columns_of_the_model(fitted):
    with pytest.raises(TableError, match="no column 'a'"):
        forecasts.with_times(fitted, daily_cycle().drop(columns="a"), FILE, None, None)


def test_all_lead_times_are_evaluated(evaluation):
    assert sorted(set(evaluation.step.tolist())) == [1, 2, 3, 4, 5, 6]


def test_a_baseline_has_the_standard_deviation_of_its_errors(evaluation):
    first = evaluation.step == 1
    for baseline in evaluation.baselines.values():
        errors = (evaluation.y - baseline.mean)[first]
        np.testing.assert_allclose(baseline.std[first], errors.square().mean().sqrt())


def test_the_baselines_are_persistence_and_the_cycles_in_use(evaluation):
    assert list(evaluation.baselines) == ["the last value", "the last day"]


def test_one_lead_time_is_shown_along_time(evaluation):
    assert set(evaluation.step[evaluation.shown].tolist()) == {3}


FIT = ("--target", "y", "--time", "t", "--horizon", 6, "--lookback", 12, "--method", "ridge", "--force")


def write(path, dates, text, **options):
    frame = daily_cycle(len(dates)).assign(t=pd.Series(dates).dt.strftime(text))
    frame.to_csv(path, index=False, **options)
    return path


def fit_and_predict(path, *options):
    call("fit", path, *FIT, "--out", path.parent / "model", *options)
    return pd.read_csv(io.StringIO(call("predict", path.parent / "model", path).stdout))


MONTHS = pd.date_range("1990-01-01", periods=100, freq="MS")
DAYS = pd.date_range("1990-01-01", periods=100)


def test_day_and_month_are_an_option_that_the_model_remembers(tmp_path):
    path = write(tmp_path / "s.csv", MONTHS, "%d/%m/%Y")
    assert "`--dayfirst` or `--no-dayfirst`" in call("fit", path, *FIT, "--out", tmp_path / "m", code=2).stderr
    assert fit_and_predict(path, "--dayfirst")["t"].iloc[:2].tolist() == ["1998-05-01", "1998-06-01"]


def test_options_of_predict_replace_what_the_model_remembers(tmp_path):
    fit_and_predict(write(tmp_path / "s.csv", MONTHS, "%d/%m/%Y"), "--dayfirst")
    other = write(tmp_path / "o.csv", MONTHS, "%m/%d/%Y")
    for option in (("--no-dayfirst",), ("--time-format", "%m/%d/%Y")):
        forecasts = call("predict", tmp_path / "model", other, *option).stdout
        assert forecasts.splitlines()[1].startswith("1998-05-01")
        call("evaluate", tmp_path / "model", other, *option)


@pytest.mark.parametrize("text", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d"])
def test_dates_that_can_be_read_in_one_way_need_no_option(tmp_path, text):
    assert fit_and_predict(write(tmp_path / "s.csv", DAYS, text))["t"].iloc[0] == "1990-04-11"


def test_digits_of_a_format_may_begin_with_zero(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%d%m%Y")
    assert fit_and_predict(path, "--time-format", "%d%m%Y")["t"].iloc[0] == "1990-04-11"


def test_whole_numbers_that_are_dates_are_a_note(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%Y%m%d")
    assert "Note: Time column 't' holds whole" in call("fit", path, *FIT, "--out", tmp_path / "m").stderr


def test_rows_that_are_left_out_or_sorted_are_those_of_the_file(tmp_path):
    frame = daily_cycle(20).assign(t=range(20))
    frame.iloc[[0, 1, 1, 2, 4, 3, *range(5, 20)]].to_csv(tmp_path / "s.csv", index=False)
    shown = call("fit", tmp_path / "s.csv", *FIT, "--out", tmp_path / "m", code=2).stderr
    assert "The first is row 3 below the header, with 1 in column 't'" in shown
    assert "the rows were sorted. The first that moved is row 5 below the header, with 4." in shown


def test_different_rows_of_one_time_are_answered_without_python(tmp_path):
    daily_cycle(20).assign(t=[0, *range(19)]).to_csv(tmp_path / "s.csv", index=False)
    shown = call("fit", tmp_path / "s.csv", *FIT, "--out", tmp_path / "m", code=2).stderr
    assert "must differ. Row 2 below the header has 0 and row 1 below the header" in shown
    assert "Replace them by one row" in shown and "`--series`" in shown and "frame" not in shown


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("t", ["2024-01-01", "2024-01-02", "noon"], "Row 3 below the header has 'noon'"),
        ("t", ["01/02/2024", "13/02/2024", "02/14/2024"], "row 3 below the header '02/14/2024', with the month first"),
        ("t", ["2024-01-01", "", "2024-01-03"], "Row 2 below the header is empty"),
        ("y", ["1", "2", "1e200"], "Row 3 below the header has 1e+200"),
    ],
)
def test_errors_about_values_name_the_row_of_the_file(tmp_path, column, values, message):
    frame = daily_cycle(30)
    others = pd.date_range("2024-02-15", periods=27).strftime("%d/%m/%Y" if "/" in values[0] else "%Y-%m-%d")
    frame[column] = [*values, *(others if column == "t" else ["1"] * 27)]
    frame.to_csv(tmp_path / "s.csv", index=False)
    assert message in call("fit", tmp_path / "s.csv", *FIT, "--out", tmp_path / "m", code=2).stderr


def test_a_file_of_another_encoding_is_read_with_an_option(tmp_path):
    path = tmp_path / "s.csv"
    daily_cycle(100).rename(columns={"a": "T (°C)"}).to_csv(path, index=False, encoding="latin-1")
    assert "`--encoding latin-1`" in call("fit", path, *FIT, "--out", tmp_path / "m", code=2).stderr
    call("fit", path, *FIT, "--out", tmp_path / "m", "--encoding", "latin-1")
    assert "Got 'x' instead" in call("fit", path, *FIT, "--out", tmp_path / "m", "--encoding", "x", code=2).stderr


def test_stacked_series_are_recognised(tmp_path):
    frame = pd.concat([daily_cycle(100).assign(shop=name) for name in ("u", "v")])
    frame.to_csv(tmp_path / "s.csv", index=False)
    stderr = call("fit", tmp_path / "s.csv", *FIT, "--out", tmp_path / "m", code=2).stderr
    assert "(`--series shop`)" in stderr and "drop_duplicates" not in stderr


def test_several_coverages_give_several_intervals(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%Y-%m-%d")
    call("fit", path, *FIT, "--out", tmp_path / "m")
    head = call("predict", tmp_path / "m", path, "--coverage", 0.5, "--coverage", 0.9).stdout.splitlines()[0]
    assert head.endswith("lower_50,upper_50,lower_90,upper_90")


def test_options_on_times_are_for_forecasters(tmp_path):
    daily_cycle(100).drop(columns="t").to_csv(tmp_path / "s.csv", index=False)
    options = ("--target", "y", "--out", tmp_path / "m", "--time-format", "%Y")
    assert "`--time-format` is for forecasters" in call("fit", tmp_path / "s.csv", *options, code=2).stderr


def test_quantiles_and_ood_scores_are_columns(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%Y-%m-%d")
    call("fit", path, *FIT, "--out", tmp_path / "m", "--method", "gmle", "--steps", 2)
    options = ("--quantiles", "0.1,0.5", "--quantiles", 0.9, "--ood-score")
    table = pd.read_csv(io.StringIO(call("predict", tmp_path / "m", path, *options).stdout))
    assert list(table)[-4:] == ["quantile_10", "quantile_50", "quantile_90", "ood_score"]
    assert table["ood_score"].nunique() == 1 and (table["ood_score"] > 0).all()


@pytest.mark.parametrize("levels", ["1", "0.1;0.9", "", "nan"])
def test_a_level_that_is_no_probability_is_refused(fitted, tmp_path, levels):
    fitted.save(tmp_path / "m")
    daily_cycle().to_csv(tmp_path / "s.csv", index=False)
    shown = call("predict", tmp_path / "m", tmp_path / "s.csv", "--quantiles", levels, code=2).stderr
    assert "`--quantiles` must be strictly between 0 and 1" in shown


def test_a_picture_is_written(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    daily_cycle().to_csv(tmp_path / "s.csv", index=False)
    call("predict", tmp_path / "m", tmp_path / "s.csv", "--plot", tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    shown = call("predict", tmp_path / "m", tmp_path / "s.csv", "--plot", tmp_path / "f.txt", code=2).stderr
    assert "`--plot` must be a .png, .pdf or .svg file" in shown


def test_horizon_and_lookback_may_be_durations(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%Y-%m-%d")
    call("fit", path, *FIT, "--horizon", "3D", "--lookback", "10D", "--out", tmp_path / "m")
    assert len(call("predict", tmp_path / "m", path).stdout.splitlines()) == 4
    assert "above 0" in call("fit", path, *FIT, "--horizon", 0, "--out", tmp_path / "m", code=2).stderr


def test_the_encoding_is_a_note(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%Y-%m-%d")
    assert "Note: Encoding 'grid' was chosen" in call("fit", path, *FIT, "--out", tmp_path / "m").stderr


@pytest.fixture(scope="module")
def irregular(tmp_path_factory):
    """A file of irregular series, and a model of it."""
    folder = tmp_path_factory.mktemp("irregular")
    stays(3, 100).to_csv(folder / "s.csv", index=False)
    call("fit", folder / "s.csv", *EVENTS, "--out", folder / "m")
    return folder


EVENTS = (
    "--target",
    "HR",
    "--target",
    "MAP",
    "--time",
    "t",
    "--series",
    "stay",
    "--horizon",
    "6h",
    "--lookback",
    "24h",
)
EVENTS += ("--static", "age", "--known-future", "dose", "--method", "half-mean")


def test_several_targets_of_irregular_series_are_forecast(irregular):
    table = pd.read_csv(io.StringIO(call("predict", irregular / "m", irregular / "s.csv").stdout))
    assert list(table)[:4] == ["t", "stay", "target", "mean"] and set(table["target"]) == {"HR", "MAP"}


def test_names_of_series_keep_their_zeros(tmp_path):
    stays(3, 100).replace({"stay": {"s0": "001", "s1": "01", "s2": "1"}}).to_csv(tmp_path / "s.csv", index=False)
    call("fit", tmp_path / "s.csv", *EVENTS, "--out", tmp_path / "m")
    table = pd.read_csv(io.StringIO(call("predict", tmp_path / "m", tmp_path / "s.csv").stdout), dtype=str)
    assert set(table["stay"]) == {"001", "01", "1"}


def test_forecasts_of_irregular_series_are_evaluated(irregular):
    shown = call("evaluate", irregular / "m", irregular / "s.csv", "--out", irregular / "page.html").stdout
    assert "HR" in shown and "the last value" in shown and (irregular / "page.html").stat().st_size > 1000


def test_a_backtest_prints_scores_beside_baselines(irregular, tmp_path):
    options = (*EVENTS, "--folds", 1, "--by", "series", "--out", tmp_path / "scores.csv")
    shown = call("backtest", irregular / "s.csv", *options).stdout
    assert "persistence" in shown and "coverage_90" in shown
    assert set(pd.read_csv(tmp_path / "scores.csv")["stay"]) == {"s0", "s1", "s2"}


def test_a_backtest_may_be_json(tmp_path):
    path = write(tmp_path / "s.csv", DAYS, "%Y-%m-%d")
    options = ("--target", "y", "--time", "t", "--horizon", 6, "--lookback", 12, "--method", "ridge", "--folds", 1)
    rows = json.loads(call("backtest", path, *options, "--by", "lead-time", "--json").stdout)
    assert [row["lead_time"] for row in rows if row["method"] == "ridge"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time", "t", "--horizon", 2), "needs `--target`"),
        (("--target", "y", "--time", "t", "--horizon", 2, "--by", "hour"), "`--by` must be series or lead-time"),
        (("--target", "y", "--time", "t", "--horizon", 2, "--time-encoding", "x"), "must be auto, events or grid"),
        (("--target", "z", "--time", "t", "--horizon", 2), "no column 'z'"),
    ],
)
def test_what_cannot_be_backtested_is_one_line(tmp_path, options, message):
    path = write(tmp_path / "s.csv", DAYS, "%Y-%m-%d")
    assert message in call("backtest", path, *options, code=2).stderr


def test_a_dropped_column_may_hold_anything_and_is_no_input(tmp_path):
    path = tmp_path / "series.csv"
    daily_cycle(100).assign(b=["error", *range(99)]).to_csv(path, index=False)
    report = call("fit", path, *FIT, "--drop", "b", "--out", tmp_path / "model", "--json").stdout
    assert json.loads(report)["columns"] == ["t", "a"]
