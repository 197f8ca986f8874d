import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from nsac import METHODS, NSACRegressor, Prediction, load
from support import ALPHA
from support.table_problems import QUICK, mixed, numbers, quick

TABLES = [name for name, cls in METHODS.items() if "table" in cls.kinds]


@pytest.mark.parametrize("outputs", [0, 1, 3])
def test_shapes_follow_the_target(outputs):
    x, y = numbers(outputs=outputs)
    tail = (outputs,) if outputs else ()
    regressor = quick(method="ridge").fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    assert mean.shape == std.shape == (60, *tail) and (std > 0).all()
    assert regressor.predict_interval(x, coverage=0.8).shape == (60, 2, *tail)
    assert regressor.predict_quantiles(x, [0.1, 0.5, 0.9]).shape == (60, 3, *tail)
    assert regressor.predict_quantiles(x, 0.5).shape == (60, 1, *tail)
    distribution = regressor.predict_distribution(x)
    assert isinstance(distribution, Prediction) and distribution.shape == (60, *tail)
    assert regressor.ood_score(x).shape == (60,)
    assert regressor.score(x, y) > 0.9


@pytest.mark.parametrize("name", TABLES)
def test_every_method_for_tables_takes_numbers_categories_and_missing_values(name, tmp_path):
    frame, y = mixed()
    regressor = quick(method=name).fit(frame, y)
    mean, std = regressor.predict(frame, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    regressor.save(tmp_path / "m")
    again = load(tmp_path / "m")
    for mine, theirs in (
        (regressor.predict(frame, return_std=True), again.predict(frame, return_std=True)),
        (regressor.predict_interval(frame, 0.5), again.predict_interval(frame, 0.5)),
        (regressor.ood_score(frame), again.ood_score(frame)),
    ):
        assert np.array_equal(mine, theirs)


def test_all_ways_to_predict_agree():
    x, y = numbers()
    regressor = quick().fit(x, 1000 * y + 5)
    p = regressor.predict_distribution(x)
    mean, std = regressor.predict(x, return_std=True)
    np.testing.assert_allclose(p.mean, mean)
    np.testing.assert_allclose(p.std, std)
    np.testing.assert_allclose(p.quantile(0.3), regressor.predict_quantiles(x, 0.3)[:, 0])
    ends = regressor.predict_interval(x, 0.5)
    np.testing.assert_allclose(ends.mean(1), mean)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / std, (ends[0, 1] - ends[0, 0]) / std[0])


def test_the_unit_of_the_target_is_only_a_unit():
    x, y = numbers()
    plain, scaled = (quick().fit(x, z).predict_interval(x, 0.5) for z in (y, -3 + 1024 * y))
    np.testing.assert_allclose(scaled, -3 + 1024 * plain, rtol=1e-3, atol=1e-2)  # single precision in training


def test_a_prediction_does_not_depend_on_the_other_rows():
    frame, y = mixed()
    regressor = quick().fit(frame, y)
    some = frame.iloc[[5, 3, 40]]
    np.testing.assert_allclose(regressor.predict(some), regressor.predict(frame)[[5, 3, 40]], rtol=1e-9)


def test_a_value_that_was_never_missing_in_training_adds_epistemic_variance():
    x, y = numbers(200, features=2)
    regressor = NSACRegressor(method="ridge", members=8, random_state=0).fit(x, y)
    incomplete = x.copy()
    incomplete[::2, 0] = np.nan
    before, after = (regressor.predict_distribution(each) for each in (x, incomplete))
    assert (after.epistemic[::2] > 10 * before.epistemic[::2]).all()
    assert torch.equal(after.mean_draws[:, 1::2], before.mean_draws[:, 1::2])
    alone = regressor.predict_distribution(incomplete[:1])
    torch.testing.assert_close(alone.mean_draws[:, 0], after.mean_draws[:, 0])


def test_a_category_that_was_never_seen_is_imputed_too():
    frame, y = mixed()
    frame["colour"] = frame["colour"].fillna("red")
    regressor = quick(method="ridge").fit(frame, y)
    other = regressor.predict_distribution(frame.assign(colour="ultraviolet"))
    assert (other.epistemic > regressor.predict_distribution(frame).epistemic).all()


def test_numbers_named_in_categorical_are_categories():
    x, y = numbers()
    x[:, 1] = np.arange(60) % 4
    assert quick(method="ridge", categorical=[1]).fit(x, y).problem_.categories == (4,)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    assert quick(method="ridge", categorical=["b"]).fit(frame, y).problem_.categories == (4,)
    with pytest.raises(ValueError, match="`categorical` must name columns of X: a, b, c. Got 'd' instead"):
        quick(categorical=["d"]).fit(frame, y)


def test_a_table_of_text_alone_is_enough():
    frame, y = mixed()
    assert quick().fit(frame[["colour", "grade"]], y).predict(frame[["colour", "grade"]]).shape == (80,)


def test_columns_must_have_the_names_and_the_order_of_fit():
    frame, y = mixed()
    regressor = quick(method="ridge").fit(frame, y)
    with pytest.raises(ValueError, match="seen at fit time, yet now missing:\n- width"):
        regressor.predict(frame.rename(columns={"width": "length"}))
    with pytest.raises(ValueError, match="same order"):
        regressor.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="X has 2 features, but NSACRegressor is expecting 3"):
        quick(method="ridge").fit(*numbers()).predict(numbers()[0][:, :2])


def change(**places):
    """A table with one thing wrong."""
    frame, y = mixed()
    for name, value in places.items():
        if name == "y":
            y = y.astype(object)
            y.iloc[2] = value
        else:
            frame[name] = frame[name].astype(object)
            frame.loc[2, name] = value
    return frame, y


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (change(width="wide"), "Column 'width' must hold numbers. Got 'wide' in row 2"),
        (change(width=np.inf), "Column 'width' must hold finite numbers"),
        (change(y=np.nan), "y contains NaN: column 'price', row 2"),
        (change(y=np.inf), "y contains infinity: column 'price', row 2"),
        (change(y="dear"), "column 'price'. must hold numbers. Got 'dear' in row 2 .1 such values.. Correct it"),
        ((mixed()[0], np.ones(80)), r"The target \(y\) must vary. It is 1"),
        ((mixed()[0], pd.DataFrame({"p": mixed()[1], "q": 2.0})), r"The target \(column 'q'\) must vary. It is 2"),
        ((mixed()[0].iloc[:1], mixed()[1][:1]), "1 sample"),
        ((mixed()[0].iloc[:0], mixed()[1][:0]), "0 sample"),
        ((mixed()[0][[]], mixed()[1]), "0 feature"),
        ((mixed()[0].assign(width=np.nan), mixed()[1]), "Column 'width' must have a value"),
        ((mixed()[0], mixed()[1][:-1]), "inconsistent numbers of samples"),
    ],
)
def test_bad_input_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(*data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "persistence"}, "`method` must be one of .*'nsac'.* Got 'persistence'"),
        ({"members": 0}, "`members` must be a whole number"),
        ({"training": {"speed": 1}}, "no field 'speed'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        quick(**arguments).fit(*numbers())


def test_without_epistemic_variance_there_is_no_ood_score():
    x, y = numbers()
    with pytest.raises(ValueError, match="`method` must have epistemic variance.*nsac"):
        quick(method="ridge", members=1).fit(x, y).ood_score(x)


def test_far_rows_have_a_high_ood_score():
    x, y = numbers(200)
    regressor = quick().fit(x, y)
    assert regressor.ood_score(x + 8).min() > np.quantile(regressor.ood_score(x), 0.99)


def test_a_number_that_does_not_matter_and_is_out_of_range_has_a_high_ood_score():
    x, y = numbers(200)
    x = np.column_stack([x, np.random.default_rng(5).uniform(-1, 1, len(x))])
    regressor = quick().fit(x, y)
    beyond = x.copy()
    beyond[:, -1] = x[:, -1].max() + 0.5 * x[:, -1].std()
    assert regressor.ood_score(beyond).min() > np.quantile(regressor.ood_score(x), 0.99)


def test_heavy_tails_do_not_stop_training():
    x, _ = numbers(200)
    y = np.random.default_rng(0).standard_cauchy(200) ** 3
    regressor = quick(training=QUICK | {"max_steps": 40, "batch_size": 32}).fit(x, y)
    assert np.isfinite(regressor.predict(x)).all()


def test_fitting_does_not_touch_global_state():
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    quick().fit(*numbers())
    assert torch.equal(state, torch.get_rng_state()) and np.array_equal(numpy_state, np.random.get_state()[1])
    assert (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())


def test_the_same_state_gives_the_same_bits_in_another_process():
    x, y = numbers()
    script = (
        "import sys, numpy as np\nfrom nsac import NSACRegressor\n"
        "table = np.frombuffer(bytes.fromhex(sys.stdin.read())).reshape(-1, 4)\n"
        f"r = NSACRegressor(random_state=0, members=2, training={QUICK}).fit(table[:, :3], table[:, 3])\n"
        "print(np.array(r.predict(table[:, :3], return_std=True)).tobytes().hex())"
    )
    table = np.column_stack([x, y])
    out = subprocess.run(
        [sys.executable, "-c", script], input=table.tobytes().hex(), capture_output=True, text=True, check=True
    )
    here = quick().fit(table[:, :3], table[:, 3]).predict(table[:, :3], return_std=True)
    assert np.array(here).tobytes().hex() == out.stdout.strip()
    other = quick(random_state=1).fit(x, y).predict(x)
    assert not np.array_equal(other, here[0])


def test_intervals_have_their_nominal_coverage():
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (3000, 1))
    y = np.sin(2 * x[:, 0]) + (0.1 + 0.3 / (1 + np.exp(-2 * x[:, 0]))) * random.normal(size=3000)
    regressor = NSACRegressor(method="gbm", random_state=0, members=1).fit(x[:1000], y[:1000])
    lower, upper = regressor.predict_interval(x[1000:], 0.8).T
    assert np.mean((lower <= y[1000:]) & (y[1000:] <= upper)) == pytest.approx(0.8, abs=0.1)  # 100 rows of calibration


def test_few_rows_of_calibration_warn_only_for_an_interval():
    x, y = numbers(12)
    regressor = quick(method="ridge").fit(x, y)
    with pytest.warns(UserWarning, match="rows of calibration are too few"):
        regressor.predict_interval(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor.predict(x)


def test_a_weight_decay_is_chosen_unless_one_is_given():
    x, y = numbers()
    free = {name: value for name, value in QUICK.items() if name != "weight_decay"}
    assert quick(training=free).fit(x, y).chosen_.keys() == {"weight_decay"}
    assert quick().fit(x, y).chosen_ == {}
    assert quick(method="ridge", training=free).fit(x, y).chosen_ == {}


def test_a_model_knows_the_names_of_its_targets(tmp_path):
    frame, y = mixed(60)
    for target, names in ((pd.Series(y, name="price"), ["price"]), (np.asarray(y), [])):
        model = quick(members=1).fit(frame, target)
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").data_["targets"] == names


def test_a_frame_has_all_of_a_prediction():
    frame, y = mixed()
    frame.index = frame.index + 100
    regressor = quick(method="ridge").fit(frame, y)
    table = regressor.predict_frame(frame, coverage=[0.5, 0.8], quantiles=[0.1])
    names = ["mean", "std", "aleatoric", "epistemic", "lower_50", "upper_50", "lower_80", "upper_80", "quantile_10"]
    assert list(table.columns) == names and table.index.equals(frame.index)
    mean, std = regressor.predict(frame, return_std=True)
    np.testing.assert_array_equal(table[["mean", "std"]], np.stack([mean, std], 1))
    np.testing.assert_array_equal(table[["lower_80", "upper_80"]], regressor.predict_interval(frame, 0.8))
    np.testing.assert_array_equal(table["quantile_10"], regressor.predict_quantiles(frame, 0.1)[:, 0])


@pytest.mark.parametrize(("names", "expected"), [(["p", "q"], ["mean_p", "mean_q"]), (None, ["mean_0", "mean_1"])])
def test_a_frame_of_several_targets_has_their_names(names, expected):
    x, y = numbers(outputs=2)
    target = y if names is None else pd.DataFrame(y, columns=names)
    table = quick(method="ridge").fit(x, target).predict_frame(x, 0.5)
    assert [name for name in table.columns if name.startswith("mean")] == expected


def test_every_row_is_predicted_once(monkeypatch):
    x, y = numbers()
    regressor = quick(method="ridge").fit(x, y)
    rows, predict = [], NSACRegressor._mixture

    def counted(self, columns):
        rows.append(len(columns["x"]))
        return predict(self, columns)

    monkeypatch.setattr(NSACRegressor, "_mixture", counted)
    regressor.predict_frame(x, [0.5, 0.8], [0.1, 0.9])
    assert sum(rows) == len(x)


def test_loading_predicts_nothing(monkeypatch, tmp_path):
    quick(method="ridge").fit(*numbers()).save(tmp_path / "m")
    monkeypatch.setattr(NSACRegressor, "_mixture", None)
    load(tmp_path / "m")


@pytest.mark.parametrize("outputs", [0, 2])
def test_several_coverages_are_an_axis_of_the_intervals(outputs):
    x, y = numbers(outputs=outputs)
    regressor = quick(method="ridge").fit(x, y)
    ends = regressor.predict_interval(x, [0.5, 0.8])
    assert ends.shape == (60, 2, 2, *((outputs,) if outputs else ()))
    np.testing.assert_array_equal(ends[:, 1], regressor.predict_interval(x, 0.8))


@pytest.mark.parametrize("outputs", [0, 2])
def test_the_conformal_interval_of_a_distribution_is_that_of_its_rows(outputs):
    x, y = numbers(outputs=outputs)
    regressor = quick(method="ridge").fit(x, y)
    lower, upper = regressor.conformal_interval(regressor.predict_distribution(x), 0.8)
    np.testing.assert_allclose(np.stack([lower, upper], 1), regressor.predict_interval(x, 0.8), rtol=1e-12)


def test_the_number_of_draws_is_an_argument():
    x, y = numbers()
    regressor = quick(num_samples=7).fit(x, y)
    assert len(regressor.predict_distribution(x).mean_draws) == 7


def test_members_of_other_methods_have_as_many_draws_each():
    x, y = numbers()
    assert len(quick(method="mcd", num_samples=7).fit(x, y).predict_distribution(x).mean_draws) == 2 * 7


def test_folds_is_a_deprecated_name_of_members(tmp_path):
    x, y = numbers()
    with pytest.warns(FutureWarning, match="`folds` was renamed `members`"):
        regressor = quick(method="ridge", folds=3).fit(x, y)
    assert len(regressor.members_) == 3
    regressor.save(tmp_path / "m")
    assert load(tmp_path / "m").members == 3


@pytest.mark.parametrize("row", range(0, 40, 5))
def test_a_value_may_be_missing_in_the_calibration_set_alone(row):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X.sum(1)
    X[row, 0] = np.nan
    estimator = NSACRegressor("ridge", members=1, random_state=0).fit(X, y)
    assert np.isfinite(estimator.predict(X)).all()


def by_machine(machines: int, seed: int, rows: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of several machines, one after the other in time; targets have an offset per machine; and the machine."""
    random = np.random.default_rng(seed)
    machine = np.repeat(np.arange(machines), rows)
    steps = 0.1 * random.normal(size=(machines, rows, 2))
    x = random.normal(size=(machines, 2))[machine] + steps.cumsum(1).reshape(-1, 2)
    y = x[:, 1] + random.normal(size=machines)[machine] + 0.1 * random.normal(size=machines * rows)
    return x, y, machine


def coverage_of(regressor: NSACRegressor, x: np.ndarray, y: np.ndarray, coverage: float) -> float:
    lower, upper = regressor.predict_interval(x, coverage).T
    return float(np.mean((lower <= y) & (y <= upper)))


@pytest.mark.slow
@pytest.mark.parametrize("machines", [6, 30])
def test_groups_make_intervals_cover_rows_of_new_groups(machines):
    """Mean over sets of groups. A set covers new groups with a frequency of beta distribution, if rows of one agree."""
    sets, new_machines, training = 5, 200, QUICK | {"max_steps": 40}
    grouped, alone = [], []
    for seed in range(sets):
        x, y, machine = by_machine(machines, seed)
        new, new_y, _ = by_machine(new_machines, 1000 + seed)
        grouped.append(coverage_of(quick(training=training).fit(x, y, groups=machine), new, new_y, 0.8))
        with pytest.warns(UserWarning, match="Rows look grouped"):
            alone.append(coverage_of(quick(training=training).fit(x, y), new, new_y, 0.8))
    rank = np.ceil(0.8 * (machines + 1))
    variance = stats.beta(rank, machines + 1 - rank).var() + 0.8 * 0.2 / new_machines
    assert np.mean(grouped) > 0.8 + stats.norm.ppf(ALPHA) * (variance / sets) ** 0.5
    assert np.mean(grouped) > np.mean(alone) + 0.1


def test_groups_are_left_out_together():
    x, y, machine = by_machine(10, seed=0)
    regressor = quick().fit(x, y, groups=machine)
    assert regressor.calibration_.groups is not None and len(regressor.calibration_.groups) == len(y)
    assert regressor.calibration_.groups.unique().numel() == 10


@pytest.fixture(scope="module")
def positive() -> tuple[np.ndarray, np.ndarray, NSACRegressor]:
    """Lognormal targets of several machines, and a model of them with groups, weights and a link."""
    x, y, machine = by_machine(12, seed=2)
    y = np.exp(y)
    return x, y, quick().fit(x, y, sample_weight=np.linspace(0, 2, len(y)), groups=machine)


def test_a_model_with_groups_weights_and_a_link_survives_the_folder_to_the_bit(positive, tmp_path):
    x, _, regressor = positive
    assert regressor.link_.name != "identity"
    regressor.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert isinstance(again, NSACRegressor) and again.link_ == regressor.link_
    for mine, theirs in (
        (regressor.predict(x, return_std=True), again.predict(x, return_std=True)),
        (regressor.predict_interval(x, 0.5), again.predict_interval(x, 0.5)),
        (regressor.predict_quantiles(x, [0.1, 0.9]), again.predict_quantiles(x, [0.1, 0.9])),
        (regressor.ood_score(x), again.ood_score(x)),
        (regressor.outside_range(x), again.outside_range(x)),
    ):
        assert np.array_equal(mine, theirs)


def test_predictions_intervals_and_quantiles_of_positive_targets_are_not_negative(positive):
    x, _, regressor = positive
    far = np.concatenate([x, 20 * x, -20 * x])
    assert (regressor.predict(far) > 0).all() and np.isfinite(regressor.predict(far)).all()
    assert (regressor.predict_interval(far, 0.5) >= 0).all()
    assert (regressor.predict_quantiles(far, [0.01, 0.99]) >= 0).all()


def test_all_ways_to_predict_a_positive_target_agree(positive):
    x, _, regressor = positive
    p = regressor.predict_distribution(x)
    mean, std = regressor.predict(x, return_std=True)
    np.testing.assert_allclose(p.mean, mean)
    np.testing.assert_allclose(p.std, std)
    np.testing.assert_allclose(p.quantile(0.3), regressor.predict_quantiles(x, 0.3)[:, 0])
    lower, upper = regressor.conformal_interval(p, 0.5)
    np.testing.assert_allclose(np.stack([lower, upper], 1), regressor.predict_interval(x, 0.5))


@pytest.mark.parametrize("target_range", [(0, 1), (0, None), (None, 1)])
def test_predictions_and_intervals_stay_within_the_range_of_the_target(target_range, tmp_path):
    x, y = numbers()
    y = 1 / (1 + np.exp(-2 * y))
    regressor = quick(members=1, target_range=target_range).fit(x, y)
    far = np.concatenate([x, 10 * x])
    low, high = (-np.inf if target_range[0] is None else 0), (np.inf if target_range[1] is None else 1)
    for values in (
        regressor.predict(far),
        regressor.predict_interval(far, 0.5),
        regressor.predict_quantiles(far, 0.99),
    ):
        assert values.min() >= low and values.max() <= high
    regressor.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(far), regressor.predict(far))


def test_targets_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="`target_range` must contain every target: they are at least 0"):
        quick(target_range=(0, None)).fit(*numbers())


@pytest.mark.parametrize(
    ("given", "argument"),
    [({"sample_weight": np.arange(60)}, {}), ({"groups": np.arange(60)}, {}), ({}, {"target_range": (None, 99)})],
)
def test_only_the_stack_takes_weights_groups_and_a_range(given, argument):
    with pytest.raises(ValueError, match="must be None for methods other than 'nsac'. Got method='ridge'"):
        quick(method="ridge", **argument).fit(*numbers(), **given)


@pytest.mark.slow  # processes that import torch
def test_several_processes_give_the_same_bits():
    frame, y = mixed()
    one, two = (quick(n_jobs=n_jobs).fit(frame, y) for n_jobs in (None, 2))
    assert np.array_equal(one.predict(frame, return_std=True), two.predict(frame, return_std=True))
    assert np.array_equal(one.predict_interval(frame, 0.5), two.predict_interval(frame, 0.5))


def test_rows_of_weight_zero_do_not_count_at_all():
    x, y = numbers(80)
    weight = np.arange(80) % 4.0
    kept = weight > 0
    x[~kept], wrong = 99.0, np.where(kept, y, 50.0)
    mine = quick(members=1).fit(x, wrong, sample_weight=weight)
    others = quick(members=1).fit(x[kept], y[kept], sample_weight=weight[kept])
    assert np.array_equal(mine.predict(x, return_std=True), others.predict(x, return_std=True))
    assert np.array_equal(mine.predict_interval(x, 0.8), others.predict_interval(x, 0.8))


def test_a_single_draw_does_not_lose_the_epistemic_variance():
    x, y = numbers()
    one, many = (quick(members=1, num_samples=n).fit(x, y).predict_distribution(3 * x) for n in (1, 20))
    assert (one.epistemic > 0).all()
    np.testing.assert_allclose(one.epistemic, many.epistemic, rtol=0.3)
    np.testing.assert_allclose(one.std, many.std, rtol=0.3)


def test_rows_outside_the_training_range_are_told():
    x, y = numbers()
    regressor = quick(members=1).fit(x, y)
    assert not regressor.outside_range(x).any() and regressor.outside_range(x + 20).all()
    with pytest.raises(ValueError, match="`method` must be 'nsac' to know the training range. Got 'ridge'"):
        quick(method="ridge").fit(x, y).outside_range(x)


@pytest.mark.parametrize(("effort", "members"), [("fast", 2), ("default", 4)])
def test_effort_decides_the_number_of_members(effort, members):
    x, y = numbers()
    assert len(quick(effort=effort, members=None).fit(x, y).members_) == members


def test_a_wrong_effort_is_named():
    with pytest.raises(ValueError, match="`effort` must be one of"):
        quick(effort="heroic").fit(*numbers())


def test_targets_of_a_frame_that_are_read_only_are_fitted():
    frame, y = mixed()
    values = y.to_numpy().copy()
    values.flags.writeable = False
    quick(members=1).fit(frame, values)
