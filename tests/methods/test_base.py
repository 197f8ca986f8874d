import pytest
import torch

from nsac.methods import METHODS, TableProblem, WindowProblem, fit, method
from nsac.training import TensorData, TrainConfig
from support.problems import sine, walk

SHORT = TrainConfig(max_steps=20, batch_size=32, validate_every=5)


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="'gmle'"):
        method("gmle")(METHODS["mcd"])


def test_data_of_a_kind_that_a_method_does_not_support_is_refused():
    with pytest.raises(ValueError, match=r"'persistence'.*'windows'.*'table'"):
        METHODS["persistence"](TableProblem(1, 1))


@pytest.mark.parametrize("name", ["nsac", "gmle", "ridge", "gbm"])
@pytest.mark.parametrize("tokens", ["slots", "features"])
def test_predictions_are_finite_for_tables_with_missing_values_and_categories(name, tokens, generator):
    x = torch.randn(200, 3, generator=generator)
    y = x[:, :1].clone()
    x[torch.rand(200, 3, generator=generator) < 0.3] = float("nan")
    x[0] = float("nan")
    c = torch.randint(0, 3, (200, 2), generator=generator)
    c[0] = 0  # a row of which nothing is known
    data = TensorData(x=x, c=c, y=y)
    method_ = METHODS[name](TableProblem(3, 1, categories=(2, 2), missing=True, tokens=tokens))
    fit(method_, data, data, TrainConfig(max_steps=3, batch_size=64))
    p = method_.predict(data.columns)
    assert p.mean.isfinite().all() and p.variance.isfinite().all()


@pytest.mark.parametrize("name", ["nsac", "gmle", "mcd", "de", "sdenet"])
def test_far_from_the_data_standard_deviations_stay_in_range(name):
    method = METHODS[name](TableProblem(3, 1))
    log_std = method.predict({"x": torch.full((4, 3), 1e6), "y": torch.zeros(4, 1)}).log_std_draws
    assert log_std.min() >= -10 and log_std.max() <= 3


@pytest.mark.parametrize("name", ["nsac", "gmle"])
def test_targets_share_weights_and_alternate_in_a_row(name):
    method = METHODS[name](WindowProblem(3, 8, lookback=6, skip=True, targets=(2, 0)))
    for part, parameter in method.named_parameters():
        if part.split(".")[-2] in ("linear", "attended", "direct"):
            parameter.data.zero_()
    weight, bias = (parameter for part, parameter in method.named_parameters() if ".skip." in f".{part}")
    x = torch.randn(5, 6, 3, generator=torch.Generator().manual_seed(0))
    mean = method.predict({"x": x, "y": torch.zeros(5, 8)}).mean.unflatten(-1, (4, 2))  # step, target
    expected = (x - x[:, -1:]).mT[:, [2, 0]] @ weight.T + bias
    torch.testing.assert_close(mean, expected.mT, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["ridge", "gbm", "gmle"])
def test_predictions_depend_on_the_columns_in_use_only(name, generator):
    x = torch.randn(80, 3, generator=generator)
    rows = TensorData(x=x, y=x.sum(-1, keepdim=True))
    method = METHODS[name](TableProblem(3, 1, columns=(2,)))
    fit(method, rows, rows, TrainConfig(max_steps=5, accelerator="cpu"))
    seen = method.predict({"x": x}).mean
    assert torch.equal(seen, method.predict({"x": x * torch.tensor([5.0, -1.0, 1.0])}).mean) and seen.std() > 0


def test_every_learner_has_its_own_run(tmp_path, generator):
    split = sine(300, generator)
    ensemble = METHODS["de"](split.problem)
    seen = []
    results = fit(ensemble, split.train, split.validation, SHORT, checkpoint=tmp_path, report=seen.append)
    assert len(results) == 3 and len(seen) == 60
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["learner-0", "learner-1", "learner-2"]


def test_a_finished_fit_is_loaded_and_not_repeated(tmp_path, generator):
    split = sine(300, generator)
    predictions, steps = [], []
    for _ in range(2):
        method = METHODS["nsac"](split.problem)
        count = []
        fit(method, split.train, split.validation, SHORT, checkpoint=tmp_path, report=count.append)
        predictions.append(method.predict(split.test.columns).mean)
        steps.append(len(count))
    assert torch.equal(*predictions) and steps[1] == 0


def test_a_solved_method_has_no_runs(generator):
    split = walk(generator=generator)
    assert fit(METHODS["persistence"](split.problem), split.train, split.validation) == []
