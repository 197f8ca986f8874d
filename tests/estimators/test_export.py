import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators import NSACForecaster, NSACRegressor
from nsac.estimators.export import ExportError, export_onnx, export_program, program_bytes
from nsac.estimators.graph import MemberGraph, make_graph
from nsac.estimators.stack import Stack
from nsac.uncertainty import Link

FACTORY = Path(__file__).parents[2] / "examples" / "factory_floor.py"
TOLERANCE = 1e-5
"""In standard deviations of the target, and relative; members compute in single precision in the graph."""


def table(n=300, seed=0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"a": 1e6 + 50 * rng.normal(size=n), "kind": rng.choice(["red", "blue", "green"], n), "b": rng.normal(size=n)}
    )
    y = 1000 + 30 * (np.sin(frame["b"]) + (frame["kind"] == "red")) + rng.normal(size=n)
    frame.loc[::7, "b"] = np.nan
    return frame, y


def fitted(method="nsac", members=1, outputs=1) -> NSACRegressor:
    X, y = table()
    target = y if outputs == 1 else np.stack([y, -3 * y], 1)
    return NSACRegressor(method, members=members, random_state=0, training={"max_steps": 8}).fit(X, target)


def factory():
    spec = importlib.util.spec_from_file_location("factory_floor", FACTORY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected(estimator, X) -> dict[str, np.ndarray]:
    p, ends = estimator.predict_distribution(X), estimator.predict_interval(X)
    parts = {"mean": p.mean, "aleatoric": p.aleatoric, "epistemic": p.epistemic}
    parts |= {"lower_90": ends[:, 0], "upper_90": ends[:, 1]}
    return {name: np.asarray(part).reshape(len(X), -1) for name, part in parts.items()}


def assert_same(out, estimator, X) -> None:
    for name, value in expected(estimator, X).items():
        unit = unit_of(estimator) ** (2 if name in ("aleatoric", "epistemic") else 1)
        np.testing.assert_allclose(out[name] / unit, value / unit, TOLERANCE, TOLERANCE, err_msg=name)


def unit_of(estimator):
    """Standard deviation of the target; of a bounded one, that of the predictions."""
    return estimator.scale_ if estimator.link_.name == "identity" else estimator.predict(table()[0]).std()


def rows_of(X) -> list[dict]:
    return [{k: "" if v != v else v for k, v in row.items()} for row in X.to_dict("records")]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    estimator = fitted()
    path = tmp_path_factory.mktemp("export") / "new folder" / "model.onnx"
    return estimator, path, export_onnx(estimator, path, targets=["y"])


def test_onnx_runtime_predicts_as_the_estimator_for_any_number_of_rows(exported):
    estimator, path, _ = exported
    model, (X, _) = factory().Model(path), table(seed=1)
    X.loc[:1, "a"] = [1e12, -1e12]  # farther than anything
    for n in (300, 7, 1):
        assert_same(model.predict(rows_of(X[:n])), estimator, X[:n])


def test_the_noise_is_an_input_of_any_number_of_draws(exported):
    estimator, path, facts = exported
    module = factory()
    model, rows = module.Model(path), rows_of(table(seed=1)[0])
    assert "noise" in [i.name for i in model.session.get_inputs()]
    shape = facts["noise"]["shape"][1:]
    noise = module.matched_normal(64, shape)
    flat = noise.reshape(64, -1).astype(float)
    np.testing.assert_allclose(flat.T @ flat / 64, np.eye(flat.shape[1]), atol=1e-5)
    np.testing.assert_allclose(flat.mean(0), 0, atol=1e-6)
    first, other = model.predict(rows), model.predict(rows, noise)
    assert np.abs(first["mean"] - other["mean"]).max() > 0
    # The variance of the mean holds factor * D, the disagreement D of the models. A shift of the ensemble, whose share
    # is s, changes D by at most 2 sqrt(s D) shift + s shift^2; all else is the same for any draws.
    stack, unit = estimator.components_.stack, estimator.scale_ * estimator.calibration_.scale.numpy()
    share, factor = (stack.weights[0] / stack.weights.sum(0)).numpy(), stack.epistemic[-1].numpy()
    shift = np.abs(other["mean"] - first["mean"]) / estimator.scale_ / stack.weights[0].numpy()
    before, after = first["epistemic"] / unit**2, other["epistemic"] / unit**2
    bound = 2 * np.sqrt(factor * share * before) * shift + factor * share * shift**2
    assert (np.abs(after - before) <= bound + 1e-4 * before).all()


def test_the_epistemic_variance_of_a_member_is_the_same_for_any_draws(exported):
    estimator, _, _ = exported
    graph, inputs = make_graph(estimator, 0.9)
    member, X = MemberGraph(graph), table(seed=1)[0]
    given = {"x": torch.tensor(X[["a", "b"]].to_numpy()), "c": estimator.columns_.tensors(X)["c"]}
    noise = torch.from_numpy(factory().matched_normal(64, inputs["noise"].shape[1:])).float()
    first, other = (member(**given, noise=each)[0].double().var(1, correction=0) for each in (inputs["noise"], noise))
    torch.testing.assert_close(other, first, rtol=1e-4, atol=0)


def test_a_value_missing_where_none_was_gives_nan_and_an_unknown_code_counts_as_missing(exported):
    estimator, path, _ = exported
    model, rows = factory().Model(path), rows_of(table(seed=1)[0][:4])
    rows[0]["a"], rows[1]["kind"], rows[2]["b"] = "", "purple", ""
    out = model.predict(rows)
    assert np.isnan(out["mean"][:, 0]).tolist() == [True, True, False, False]
    feed = {"x": np.ones((3, 2)) * [1e6, 0], "c": np.array([[1], [-1], [99]]), "noise": model.noise}
    mean, *_ = model.session.run(None, feed)
    assert np.isnan(mean[:, 0]).tolist() == [False, True, True] and not estimator.imputer_.learned["c"].any()


def test_the_file_says_what_it_takes(exported):
    _, path, facts = exported
    about = factory().Model(path).about
    assert about == json.loads(json.dumps(facts)) and about["targets"] == ["y"] and about["coverage"] == 0.9
    assert [(c["name"], c["input"], c["missing"]) for c in about["columns"]] == [
        ("a", "x", False), ("kind", "c", False), ("b", "x", True),
    ]  # fmt: skip
    assert sorted(about["columns"][1]["levels"]) == ["blue", "green", "red"]
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]  # nothing temporary is left


def test_the_factory_floor_needs_no_torch(exported, tmp_path):
    estimator, path, _ = exported
    X = table(seed=1)[0][:5]
    X.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "torch.py").write_text("raise ImportError('there is no torch here')")
    (tmp_path / "pandas.py").write_text("raise ImportError('there is no pandas here')")
    done = subprocess.run(
        [sys.executable, FACTORY, path, tmp_path / "new.csv"],
        env={"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    header, *rows = done.stdout.splitlines()
    assert "epist. std" in header and len(rows) == 5
    np.testing.assert_allclose([float(row.split()[1]) for row in rows], estimator.predict(X), rtol=1e-4)  # 5 digits


@pytest.mark.parametrize("text", ["a,when\n1.5,x\n\n", "\ufeff a; when\r\n1,5;x\r\n", '\n"a"|"when"\n1.5|"x"\n'])
def test_the_factory_floor_reads_common_files(tmp_path, text):
    (tmp_path / "new.csv").write_text(text, encoding="utf-8", newline="")
    assert factory().read_rows(tmp_path / "new.csv") == [{"a": "1.5", "when": "x"}]


def test_the_factory_floor_names_an_absent_column(exported, tmp_path):
    (tmp_path / "new.csv").write_text("a;kind\n1;red\n")
    with pytest.raises(SystemExit, match="has no column b. Its columns are: a, kind"):
        factory().main(exported[1], tmp_path / "new.csv")


@pytest.mark.slow  # a model of its own
def test_dates_are_exported_with_their_features(tmp_path):
    X, y = table(60)
    dates = pd.date_range("2024-01-01 05:30", periods=60, freq="31h")
    X["when"] = np.random.default_rng(0).permutation(dates)  # rows in order of time would look grouped
    estimator = NSACRegressor(members=1, random_state=0, training={"max_steps": 2}).fit(X, y)
    facts = export_onnx(estimator, tmp_path / "model.onnx")
    assert [column["feature"] for column in facts["columns"] if column["name"] == "when"] == [
        "year", "month", "day", "weekday", "days", "hour",
    ]  # fmt: skip
    assert_same(factory().Model(tmp_path / "model.onnx").predict(rows_of(X)), estimator, X)


@pytest.mark.slow
def test_the_torch_program_predicts_as_the_estimator(exported, tmp_path):
    estimator, path, _ = exported
    program, model = export_program(estimator), factory().Model(path)
    (tmp_path / "model.pt2").write_bytes(program_bytes(program))
    X = table(seed=1)[0][:5]
    feed = {"x": torch.tensor(X[["a", "b"]].to_numpy()), "noise": torch.tensor(model.noise)}
    levels = model.about["columns"][1]["levels"]
    feed["c"] = torch.tensor([[levels.index(kind) + 1] for kind in X["kind"]])
    out = torch.export.load(tmp_path / "model.pt2").module()(**feed)
    assert_same(dict(zip(model.outputs, (part.numpy() for part in out), strict=True)), estimator, X)


def test_methods_that_cannot_be_exported_are_named(tmp_path):
    X, y = table(60)
    estimator = NSACRegressor("mcd", members=1, random_state=0, training={"max_steps": 2}).fit(X, y)
    with pytest.raises(ExportError, match="must be one of nsac, gmle, de.* Got 'mcd'"):
        export_onnx(estimator, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "members", "outputs"), [("nsac", 4, 2), ("gmle", 2, 1), ("de", 1, 1), ("ridge", 1, 2)]
)
def test_members_outputs_and_other_methods_are_exported_too(tmp_path, method, members, outputs):
    estimator = fitted(method, members, outputs)
    if estimator.components_ is not None:  # after so few steps the stack hardly counts the ensemble
        stack = Stack(*(torch.ones_like(each) for each in estimator.components_.stack.to_tensors().values()))
        stack = replace(stack, freedom=4 * stack.freedom)
        estimator.components_ = replace(estimator.components_, stack=stack)
    export_onnx(estimator, tmp_path / "model.onnx")
    X, _ = table(seed=1)
    assert_same(factory().Model(tmp_path / "model.onnx").predict(rows_of(X)), estimator, X)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bounds"), [("log", (0, None)), ("softplus", (None, 9)), ("logit", (0, 9))])
def test_the_link_of_bounded_targets_is_exported(exported, monkeypatch, tmp_path, name, bounds):
    estimator, (X, _) = exported[0], table(seed=1)
    monkeypatch.setattr(estimator, "link_", Link(name, *bounds, scale=2.0, margin=0.01))
    monkeypatch.setattr(estimator, "centre_", np.array([0.5]))
    monkeypatch.setattr(estimator, "scale_", np.array([0.8]))
    export_onnx(estimator, tmp_path / "model.onnx")
    assert_same(factory().Model(tmp_path / "model.onnx").predict(rows_of(X)), estimator, X)


def windows(estimator, frame, ends):
    """Windows that end with these rows, local times there, and what the estimator says after them."""
    columns = estimator.columns_.inputs
    x = np.stack([frame[columns].to_numpy()[end - estimator.lookback : end] for end in ends])
    time = np.array([frame["date"].iloc[end - 1].tz_localize(None).timestamp() for end in ends])
    said = [estimator.predict(frame[:end]) for end in ends]
    return x, time, {name: np.stack([p[name] for p in said]) for name in said[0].columns if name != "date"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The last")
@pytest.mark.parametrize(("holes", "covariates", "zone"), [(0.0, 1, None), (0.2, 10, "Europe/Berlin")])
def test_a_forecaster_is_exported_with_its_calendar_holes_and_adapted_margins(tmp_path, holes, covariates, zone):
    rng, n = np.random.default_rng(0), 600
    frame = pd.DataFrame({"date": pd.date_range("2024-03-20", periods=n, freq="h", tz=zone)})
    frame["OT"] = 20 + 5 * np.sin(np.arange(n) * 2 * np.pi / 24) + rng.normal(size=n)
    others = pd.DataFrame(rng.normal(size=(n, covariates)), columns=[f"v{i}" for i in range(covariates)])
    frame = pd.concat([frame, others.mask(rng.random(others.shape) < holes)], axis=1)
    frame["OT"] = frame["OT"].mask(rng.random(n) < holes)
    estimator = NSACForecaster(6, 24, "OT", "date", random_state=0, members=1, training={"max_steps": 20})
    estimator.fit(frame[:400]).update(frame)
    assert estimator.problem_.missing == (holes > 0) and estimator.cycles_ == ["day", "week"]
    facts = export_onnx(estimator, tmp_path / "model.onnx")
    assert facts["step"] == 3600 and facts["horizon"] == 6 and len(facts["columns"]) == 1 + covariates
    model = factory().Model(tmp_path / "model.onnx")
    x, time, said = windows(estimator, frame, range(450, 500))
    out = dict(zip(model.outputs, model.session.run(None, {"x": x, "time": time, "noise": model.noise}), strict=True))
    for name in model.outputs:
        unit = 25 if name in ("aleatoric", "epistemic") else 5
        assert np.abs(out[name] - said[name]).max() / unit < TOLERANCE, name
    x[0, :, 0] = np.nan
    assert np.isnan(model.session.run(None, {"x": x, "time": time, "noise": model.noise})[0][:, 0]).sum() == 1
