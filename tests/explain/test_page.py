import base64
import copy
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import nsac
from explain.conftest import events, series, share_weights, table
from nsac import NSACForecaster, NSACRegressor
from nsac.estimators import kernel
from nsac.estimators.patterns import MissingPatterns
from nsac.explain import ExplainError
from nsac.explain.embedded import embed
from nsac.explain.page import SCRIPTS, asset, page, page_data
from support.browser import Browser, installed
from support.table_problems import mixed

NAMES = ("mean", "aleatoric", "epistemic", "lower", "upper")
TOLERANCE = 1e-4  # of a standard deviation of the target


def in_page(data: dict, script: str = "data.inputs.map((input) => api.predict(model, input).outputs)") -> list:
    """The value of an expression of the page's script, with `data` and `model`."""
    if not shutil.which("node"):
        pytest.skip("node is needed to run the script of the page")
    source = "".join(asset(name) for name in SCRIPTS if name not in ("inputs.js", "page.js"))
    code = f"{source}; const api = {{ predict }}; const data = JSON.parse(require('fs').readFileSync(0));"
    code += f"const model = makeModel(data.model, data.packed); console.log(JSON.stringify({script}));"
    result = subprocess.run(["node", "-e", code], input=json.dumps(data), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout)


def assert_same(found: list, explained) -> None:
    """In standard deviations of the target: where data have no noise, variances themselves are rounding errors."""
    model, expected = explained.subject.model, explained.prediction
    unit = {"series": lambda: model.preprocessor_.scale[0], "events": lambda: model.events_.scale.std[0].item()}
    unit = unit.get(explained.subject.kind, lambda: model.data_.get("std", model.scale_))()
    for name in NAMES:
        values, known = np.array([[output[name] for output in row] for row in found]), getattr(expected, name)
        if name in ("aleatoric", "epistemic"):
            values, known = np.sqrt(values), np.sqrt(known)
        assert np.abs((values - known) / unit).max() < TOLERANCE, name


def test_the_page_predicts_what_python_predicts(regressor):
    rows = table(6, seed=1)[0]
    rows.loc[0, "a"], rows.loc[1, "b<i>"], rows.loc[2, "a"] = np.nan, None, 40.0  # imputed, unknown, and out of range
    explained = nsac.explain(regressor, rows)
    assert_same(in_page(page_data(explained)), explained)


def test_the_page_forecasts_what_python_forecasts(forecaster):
    frame = series(60, seed=1)
    frame.loc[[50, 58, 59], "z"] = frame.loc[[40, 41], "y"] = np.nan
    explained = nsac.explain(forecaster, frame, origins=[30, 42, 59])
    assert_same(in_page(page_data(explained)), explained)


def test_the_calendar_that_trees_read_is_the_same_to_the_bit(forecaster):
    explained = nsac.explain(forecaster, series(60, seed=1), origins=[30, 41, 59])
    run = "(input) => leadFeatures(model, prepareWindow(model, input))"
    found = in_page(page_data(explained), f"data.inputs.map({run})")
    subject, others = explained.subject, forecaster.components_
    expected = others.features.pairs(subject._batch(subject.inputs)).numpy()
    cycles = 1 + 2 * len(others.features.angles)  # the last columns: lead time and its place in each cycle
    assert len(others.features.angles) and (np.array(found)[..., -cycles:] == expected[..., -cycles:]).all()


EVENTS = "unpackEvents(data, model).map((input) => api.predict(model, input).outputs)"


def test_the_page_forecasts_events_as_python_does(event_forecaster):
    explained = nsac.explain(event_forecaster, events(120, seed=1), origins=[0, 3, 60, 119])
    assert_same(in_page(page_data(explained), EVENTS), explained)


def test_events_of_several_targets_series_and_attributes_are_forecast_alike():
    frame = pd.concat([events(60, seed=k).assign(name=f"s{k}", size=float(k)) for k in range(12)])
    frame["plan"] = np.arange(len(frame)) % 3 * 1.0
    frame.loc[frame["name"] == "s3", "size"] = np.nan
    columns = {"target": ["y", "z"], "time": "date", "series": "name", "static": ["size"], "known_future": ["plan"]}
    settings = {"encoding": "events", "members": 1, "random_state": 0, "training": {"max_steps": 5}}
    explained = nsac.explain(NSACForecaster(2, 8, **columns, **settings).fit(frame), frame)
    assert_same(in_page(page_data(explained), EVENTS), explained)


def test_events_with_a_missing_channel_have_intervals_of_their_own_in_the_page(event_forecaster):
    model, number = copy.copy(event_forecaster), torch.arange(600)
    patterns = MissingPatterns(torch.ones(2).bool(), torch.tensor([[False, False], [False, True]]), torch.tensor([1]))
    scores, column = number.double() / 300 + number % 3, number // 3 % 8
    model.calibration_ = replace(
        model.calibration_, scores=scores, column=column, groups=number, patterns=patterns, classes=number % 3
    )
    frame = events(120, seed=1)
    frame.loc[40:80, "z"] = frame.loc[90:, "y"] = np.nan
    explained = nsac.explain(model, frame, origins=[30, 80, 119])
    p = explained.prediction
    margin = (p.upper - p.mean) / np.sqrt(p.aleatoric + p.epistemic)
    assert len(np.unique(margin.round(6)[:, -1])) == 3  # complete, without the second channel, without the first
    assert_same(in_page(page_data(explained), EVENTS), explained)


def test_removed_and_added_events_have_the_effect_of_another_frame(event_forecaster):
    frame = events(120, seed=1)
    data = page_data(nsac.explain(event_forecaster, frame, origins=[80]))
    change = "input.tokens.splice(3, 1); input.tokens.push({ channel: 1, time: -5400, value: 0.7 });"
    found = in_page(
        data, f"unpackEvents(data, model).map((input) => {{ {change} return predict(model, input).outputs; }})"
    )
    channel, time, _ = data["events"][0][3]
    gone = frame["date"][80] + pd.Timedelta(seconds=time)
    frame = frame[:81].copy()
    frame.loc[(frame["date"] - gone).abs() < pd.Timedelta(seconds=1), ["y", "z"][channel]] = np.nan
    added = pd.DataFrame({"date": [frame["date"][80] - pd.Timedelta(seconds=5400)], "z": [0.7]})
    assert_same(found, nsac.explain(event_forecaster, pd.concat([frame, added]).sort_values("date")))


def test_an_irregular_series_with_missing_values_is_forecast_alike():
    random = np.random.default_rng(0)
    frame = series(200).assign(date=np.cumsum(random.uniform(0.6, 1.4, 200)))
    frame.loc[random.random(200) < 0.3, "z"] = np.nan
    frame.loc[random.random(200) < 0.2, "y"] = np.nan
    frame = frame[random.random(200) < 0.9]
    model = NSACForecaster(2, 6, encoding="grid", members=1, random_state=0, training={"max_steps": 5}).fit(frame)
    explained = nsac.explain(model, frame, origins=[100, 150])
    assert model.problem_.missing
    assert_same(in_page(page_data(explained)), explained)


@pytest.mark.slow
@pytest.mark.parametrize("target_range", [(0, None), (None, 9), (-1, 9)])
def test_bounded_targets_have_the_same_moments_in_the_page(target_range):
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    y = np.clip(np.exp(x[:, 0] / 2), 0, 8)
    model = NSACRegressor(random_state=0, members=2, target_range=target_range, training={"max_steps": 5}).fit(x, y)
    explained = nsac.explain(share_weights(model), x[:3])
    assert_same(in_page(page_data(explained)), explained)


@pytest.mark.slow
def test_several_targets_are_predicted_in_the_page():
    x = np.random.default_rng(0).normal(size=(80, 3))
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(x, x[:, :2] ** 2)
    explained = nsac.explain(share_weights(model), x[:3])
    assert_same(in_page(page_data(explained)), explained)


def test_a_model_of_an_earlier_version_is_predicted_in_the_page():
    model = nsac.load(Path(__file__).parents[1] / "estimators/saved/regressor-1/model")
    explained = nsac.explain(model, mixed(5, seed=5)[0])
    assert_same(in_page(page_data(explained)), explained)


@pytest.mark.slow
def test_a_process_with_few_inducing_rows_is_stored_as_a_triangle(regressor, monkeypatch):
    monkeypatch.setattr(kernel, "EXACT_ROWS", 30)
    monkeypatch.setattr(kernel, "MAX_INDUCING", 40)
    monkeypatch.setattr(kernel, "MAX_VARIANCE_INDUCING", 20)
    x = np.random.default_rng(0).normal(size=(80, 2))
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(x, x[:, 0])
    explained = nsac.explain(share_weights(model), x[:3])
    data = page_data(explained)
    assert "kernel.triangle" in data["packed"]["index"]
    assert_same(in_page(data), explained)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.003, 0.3])
def test_the_factor_of_an_exact_process_is_computed_in_the_page(noise):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 4))
    y = x[:, 0] + np.sin(2 * x[:, 1]) + noise * rng.normal(size=800)
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(x, y)
    explained = nsac.explain(share_weights(model), np.concatenate([x[:3], rng.normal(size=(3, 4)), 3 + x[:3]]))
    data = page_data(explained)
    assert "kernel.triangle" not in data["packed"]["index"]
    assert_same(in_page(data), explained)


@pytest.mark.slow
def test_a_clamped_neuron_has_the_effect_of_a_changed_weight(regressor):
    rows = table(2, seed=1)[0]
    data = page_data(nsac.explain(regressor, rows))
    clamp = "({ member: 0, cells: { 'command 3': 0.7 } })"
    found = in_page(data, f"data.inputs.map((input) => api.predict(model, input, {clamp}).outputs)")
    motor = regressor.members_[0].network.attention.backbone.motor
    kept = motor.weight.detach().clone(), motor.bias.detach().clone()
    matrix = motor.matrix().detach()
    with torch.no_grad():  # the bias takes over what the neuron adds
        motor.bias += 0.7 * matrix[3]
        motor.weight[torch.div(motor.index, matrix.shape[1], rounding_mode="floor") == 3] = 0
    try:
        explained = nsac.explain(regressor, rows)
    finally:
        with torch.no_grad():
            motor.weight.copy_(kept[0])
            motor.bias.copy_(kept[1])
    assert_same(found, explained)


def test_cells_of_the_page_are_the_traced_ones(regressor):
    explained = nsac.explain(regressor, table(2, seed=1)[0])
    found = in_page(page_data(explained), "predict(model, data.inputs[1]).networks[1].cells")
    trace = explained.traces[1]
    for name, values in {**trace.gates, "mu": trace.mu, "sigma": trace.sigma, "weight": trace.weights}.items():
        page_values = [[pair[name] for pair in head["pairs"]] for head in found]
        np.testing.assert_allclose(page_values, values[1, :, 0], atol=1e-6)  # weights are in single precision
    stds = [[pair["weightStd"] for pair in head["pairs"]] for head in found]
    np.testing.assert_allclose(stds, trace.weights_std[1, :, 0], atol=1e-6)


@pytest.fixture(scope="module")
def text(regressor) -> str:
    return page(nsac.explain(regressor, table(5, seed=1)[0]))


def test_the_page_loads_no_other_file(text):
    assert not re.findall(r"(?:src|href)=[\"'](?!#|data:)", text) and "http://" not in text and "https://" not in text


def test_the_policy_of_the_page_admits_its_own_script_and_style_only(text):
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(script) == len(style) == 1
    for content in script + style:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in text
    assert "default-src 'none'" in text and "unsafe" not in text and " style=" not in text and " onclick" not in text


def test_names_of_users_are_escaped():
    x = pd.DataFrame({"</script><b>": np.random.default_rng(0).normal(size=80), "a&b": 1.0})
    y = pd.Series(x["</script><b>"], name="<img>")
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(x, y)
    content = page(nsac.explain(model, x[:3]))
    assert content.count("</script>") == 3 and "<img>" not in content and "&lt;img&gt;" in content


def test_a_page_needs_the_method_nsac():
    x = np.random.default_rng(0).normal(size=(60, 2))
    model = NSACRegressor("gmle", random_state=0, members=1, training={"max_steps": 5}).fit(x, x[:, 0])
    explained = nsac.explain(model, x[:2])
    with pytest.raises(ExplainError, match="`method` must be 'nsac' for a page.*Got 'gmle'"):
        explained.save("unused.html")


def test_embedded_margins_are_null_where_scores_are_too_few(regressor):
    assert embed(regressor, 0.9)[0]["margins"][0][0] > 0 and embed(regressor, 0.999)[0]["margins"][-1] == [None]
    few = replace(regressor.calibration_, scores=regressor.calibration_.scores[:5])
    assert few.margin(0.9).isinf().all()


READY = "document.documentElement.dataset.ready === 'yes'"
MEAN = "Number(document.documentElement.dataset.mean)"


def changes(browser: Browser, action) -> bool:
    before = browser.run(MEAN)
    action()
    return browser.run(MEAN) != before


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not installed():
        pytest.skip("chromium is not installed (Debian package `chromium`)")
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def opened(browser: Browser, explained, folder) -> None:
    explained.save(folder / "page.html")
    browser.errors.clear()
    browser.open(folder / "page.html")
    browser.wait(READY)


def set_value(selector: str, value: str, event: str) -> str:
    element = f"document.querySelector({selector!r})"
    return f"(() => {{ {element}.value = {value!r}; {element}.dispatchEvent(new Event({event!r})); }})()"


def test_a_browser_shows_and_changes_a_table(regressor, tmp_path, browser):
    opened(browser, nsac.explain(regressor, table(12, seed=1)[0]), tmp_path)
    assert changes(browser, lambda: browser.run(set_value("#row", "3", "input")))  # the slider
    assert changes(browser, lambda: browser.run(set_value("#input-0", "2.5", "change")))  # a value
    assert changes(browser, lambda: browser.click("#inputs button"))  # its removal
    assert changes(browser, lambda: browser.click("#reset"))
    browser.click('[data-neuron="command 2"]')
    assert changes(browser, lambda: browser.run(set_value("#clamp-value", "0.9", "input")))
    browser.wait("document.querySelectorAll('#without-table tbody tr').length === 4")
    assert float(browser.run("document.documentElement.dataset.difference")) < TOLERANCE and not browser.errors


def test_a_browser_shows_and_changes_a_series(forecaster, tmp_path, browser):
    opened(browser, nsac.explain(forecaster, series(60, seed=1), origins=[40, 50, 59]), tmp_path)
    assert changes(browser, lambda: browser.run(set_value("#row", "1", "input")))
    browser.click('[data-cell="1 4"]')
    assert changes(browser, lambda: browser.click("#inputs button"))  # an observation is removed
    assert changes(browser, lambda: browser.run(set_value("#input-0", "1.5", "change")))  # and another added
    before = browser.run("document.querySelector('#lead-text').textContent")
    browser.run(set_value("#lead", "2.5", "input"))
    assert browser.run("document.querySelector('#lead-text').textContent") != before
    before = browser.run("document.querySelector('#time-figure').innerHTML")
    place = browser.box("#clock")
    browser.drag((place[0] + place[2] / 2, place[1]), (place[0] + 0.9 * place[2], place[1]))  # internal time
    assert browser.run("document.querySelector('#time-figure').innerHTML") != before and not browser.errors


def test_a_browser_shows_and_changes_events(event_forecaster, tmp_path, browser):
    browser.resize(1280, 900)
    opened(browser, nsac.explain(event_forecaster, events(120, seed=1), origins=[60, 90, 119]), tmp_path)
    assert changes(browser, lambda: browser.run(set_value("#row", "1", "input")))
    browser.click('[data-cell="4"]')
    assert changes(browser, lambda: browser.run(set_value("#input-0", "2.5", "change")))  # a value
    assert changes(browser, lambda: browser.click("#inputs button"))  # its removal
    browser.run(set_value("#add-value", "1.5", "change"))
    assert changes(browser, lambda: browser.click("#add"))  # another observation
    browser.click('[data-neuron="command 2"]')
    assert changes(browser, lambda: browser.run(set_value("#clamp-value", "0.9", "input")))
    browser.wait("document.querySelector('#query-figure svg') !== null")
    before = browser.run("document.querySelector('#query-figure').innerHTML")
    place = browser.box("#lead")
    browser.drag((place[0] + 8, place[1]), (place[0] + 0.7 * place[2], place[1]))  # the query time
    assert browser.run("document.querySelector('#query-figure').innerHTML") != before
    browser.run("document.querySelector('[data-cell][tabindex=\"0\"]').focus()")
    browser.press("ArrowLeft")
    assert browser.run("document.activeElement.dataset.cell") is not None
    assert float(browser.run("document.documentElement.dataset.difference")) < TOLERANCE and not browser.errors


@pytest.mark.slow
def test_the_page_works_by_keyboard(regressor, tmp_path, browser):
    opened(browser, nsac.explain(regressor, table(5, seed=1)[0]), tmp_path)
    browser.run("document.querySelector('#row').focus()")
    assert changes(browser, lambda: browser.press("ArrowRight"))
    browser.run("document.querySelector('[data-neuron][tabindex=\"0\"]').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.dataset.neuron").startswith("command")
    browser.run(set_value("#clamp-value", "-0.8", "input"))
    assert changes(browser, lambda: browser.press(" ")) and not browser.errors  # released


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_the_screen(regressor, tmp_path, browser, width):
    browser.resize(width, 900)
    opened(browser, nsac.explain(regressor, table(5, seed=1)[0]), tmp_path)
    assert browser.run("document.documentElement.scrollWidth") <= width
    sizes = """[...document.querySelectorAll("svg text, p, td, label")].map((e) => {
      const svg = e.closest("svg"), zoom = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
      return zoom * parseFloat(getComputedStyle(e).fontSize); })"""
    assert browser.run(f"Math.min(...{sizes})") >= 11  # pixels


@pytest.mark.slow
def test_a_page_of_two_hundred_rows_is_small(tmp_path):
    x = np.random.default_rng(0).normal(size=(1500, 8))
    model = NSACRegressor(random_state=0, training={"max_steps": 20}).fit(x, x[:, 0])
    explained = nsac.explain(model, x[:200])
    explained.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 3e6
