import matplotlib
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from nsac.estimators.forecast_plot import MAX_PANELS
from support.series import daily_cycle, ridge

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def stacked(count):
    return pd.concat([daily_cycle(100, seed).assign(id=f"s{seed}") for seed in range(count)])


@pytest.fixture(scope="module")
def fitted():
    return ridge().fit(daily_cycle())


def test_a_picture_shows_observed_values_intervals_and_the_mean(fitted):
    figure = fitted.plot(daily_cycle())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "observed", "90 % interval", "50 % interval", "mean",
    ]  # fmt: skip


def test_the_mean_in_the_picture_is_the_forecast(fitted):
    axes = fitted.plot(daily_cycle()).axes[0]
    line = next(each for each in axes.get_lines() if each.get_label() == "mean")
    assert line.get_ydata().tolist() == fitted.predict(daily_cycle())["mean"].tolist()


def test_observed_values_are_those_of_three_horizons(fitted):
    axes = fitted.plot(daily_cycle()).axes[0]
    line = next(each for each in axes.get_lines() if each.get_label() == "observed")
    assert len(line.get_ydata()) == 19


def test_a_picture_is_written_to_a_file(fitted, tmp_path):
    fitted.plot(daily_cycle(), tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG") and not plt.get_fignums()


def test_a_single_time_is_drawn_too(fitted):
    frame = daily_cycle()
    assert fitted.plot(frame, at=frame["t"].iloc[-1] + pd.Timedelta("90min")).axes


def test_every_series_has_a_panel_up_to_a_maximum():
    frame = stacked(MAX_PANELS + 1)
    figure = ridge(series="id").fit(frame).plot(frame)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"id s{k}" for k in range(MAX_PANELS)]
    assert "12 of 13 forecasts are shown" in figure._supxlabel.get_text()


def test_times_may_be_an_index_with_a_zone():
    frame = daily_cycle(200)
    frame["t"] = frame["t"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    frame = frame.set_index("t")
    axes = ridge().fit(frame).plot(frame).axes[0]
    assert len(axes.get_lines()[0].get_ydata()) == 19


def test_times_may_be_numbers():
    frame = daily_cycle(200).assign(t=range(200))
    assert ridge().fit(frame).plot(frame).axes[0].get_xlabel() == "t"
