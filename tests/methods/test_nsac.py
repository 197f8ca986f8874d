import pytest
import torch

from nsac.methods import METHODS, NSACMethod, TableProblem, WindowProblem, fit
from nsac.training import TensorData, TrainConfig
from support.problems import scattered, sine, walk

SHORT = TrainConfig(max_steps=20, accelerator="cpu")


def test_rows_with_few_known_values_have_the_epistemic_variance_of_their_novelty(generator):
    x = torch.randn(300, 3, generator=generator)
    y = x[:, :1] + 0.1 * torch.randn(300, 1, generator=generator)
    x[torch.rand(300, 3, generator=generator) < 0.2] = float("nan")
    problem = TableProblem(3, 1, missing=True, tokens="features")
    method = NSACMethod(problem)
    fit(method, TensorData(x=x[:200], y=y[:200]), TensorData(x=x[200:], y=y[200:]), SHORT)
    queries = torch.tensor([[9.0, float("nan"), float("nan")], [float("nan")] * 3])
    p = method.predict({"x": queries})
    wanted = method.novelty.variance(*method.novelty(method.network.encoder.describe({"x": queries})))
    torch.testing.assert_close(p.epistemic, wanted, rtol=0.2, atol=1e-6)


def test_the_variance_of_the_mean_is_the_variance_from_novelty(generator):
    for split in (sine(400, generator), walk(200, generator=generator), scattered(60, generator=generator)):
        method = NSACMethod(split.problem)
        fit(method, split.train, split.validation, SHORT)
        batch = split.test.columns
        wanted = method.novelty.variance(*method.novelty(method.network.encoder.describe(batch)))
        given = method.predict(batch, 20).epistemic.mean(-1)
        torch.testing.assert_close(given.flatten(), wanted.flatten(), rtol=1e-3, atol=1e-7)


def test_the_two_variances_add_up_to_the_squared_validation_error(generator):
    split = sine(600, generator)
    method = NSACMethod(split.problem)
    fit(method, split.train, split.validation, TrainConfig(max_steps=100, accelerator="cpu"))
    batch = split.validation.columns

    def ratios(shift):
        with torch.no_grad():
            method.reader.direct.bias[1] += shift
        method.finish(split.train, split.validation)
        p = method.predict(batch)
        error = (p.mean - batch["y"]).square()
        shares = (p.epistemic.mean() / error.mean()).item()
        return (error.mean() / p.variance.mean()).item(), (error / p.variance).median().item(), shares

    mean, median, _ = ratios(-1.0)  # an overconfident head
    assert (mean == pytest.approx(1, rel=0.02) and median > 0.44) or (
        median == pytest.approx(0.455, rel=0.02) and mean > 1
    )
    _, _, share = ratios(2.0)  # an underconfident head
    assert 0 < share <= 0.101


def test_a_few_large_errors_do_not_widen_all_rows(generator):
    split = sine(600, generator)
    method = NSACMethod(split.problem)
    fit(method, split.train, split.validation, TrainConfig(max_steps=100, accelerator="cpu"))
    before = method.predict(split.test.columns).epistemic.median()
    columns = {name: column.clone() for name, column in split.validation.columns.items()}
    columns["y"][:3] += 20.0
    method.finish(split.train, TensorData(**columns))
    assert method.predict(split.test.columns).epistemic.median() < 3 * before


def test_epistemic_variance_rises_beyond_the_data(generator):
    split = sine(800, generator)
    method = NSACMethod(split.problem)
    fit(method, split.train, split.validation, TrainConfig(max_steps=100, accelerator="cpu"))
    x = torch.tensor([[0.0], [1.0], [3.0], [4.0], [8.0]])
    epistemic = method.predict({"x": x}).epistemic[:, 0]
    assert (epistemic.diff()[1:] > 0).all() and epistemic[2] > 20 * epistemic[:2].max() and epistemic[-1] > 0.5


def test_epistemic_variance_falls_with_more_training_rows(generator):
    split, left = sine(3000, generator), []
    for n in (20, 1500):
        some = TensorData(**{name: column[:n] for name, column in split.train.columns.items()})
        method = NSACMethod(split.problem)
        fit(method, some, split.validation, TrainConfig(max_steps=150, accelerator="cpu"))
        left.append(method.predict(split.test.columns).epistemic.mean().item())
    assert left[1] < 0.5 * left[0]


def test_novelty_does_not_depend_on_targets(generator):
    split = sine(400, generator)
    one, two = (NSACMethod(split.problem) for _ in range(2))
    one.prepare(split.train)
    two.prepare(TensorData(x=split.train.columns["x"], y=torch.zeros_like(split.train.columns["y"])))
    for a, b in zip(one.novelty.state_dict().values(), two.novelty.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_the_paper_objective_has_two_terms_and_no_novelty(generator):
    split = sine(200, generator)
    method = METHODS["nsac"](split.problem, objective="paper")
    fit(method, split.train, split.validation, SHORT)
    assert {"nll", "reg", "var_id", "var_ood"} <= set(method.parts) and method.novelty is None
    with pytest.raises(ValueError, match="`objective` must be one of 'novelty', 'paper'"):
        METHODS["nsac"](TableProblem(1, 1), objective="other")
    with pytest.raises(ValueError, match="`reg_weight` must be None with objective='novelty'"):
        METHODS["nsac"](TableProblem(1, 1), reg_weight=0.1)


def test_far_from_the_data_the_aleatoric_variance_is_at_least_the_typical_one(generator):
    split = sine(200, generator)
    method = NSACMethod(split.problem, 0)
    fit(method, split.train, split.validation, SHORT)
    with torch.no_grad():
        for part in (method.reader.direct, method.reader.attended):
            part.weight[1], part.bias[1] = 0.0, -4.0  # a head with a very small standard deviation
    far = {"x": torch.full((3, split.problem.input_dim), 1e3), "y": torch.zeros(3, 1)}
    assert method.novelty is not None
    torch.testing.assert_close(method.predict(far).aleatoric, method.novelty.usual.expand(3, 1), rtol=1e-3, atol=0)
    epistemic = method.novelty.epistemic(method.network.encoder.describe(far))
    new, prior = method.novelty(method.network.encoder.describe(far))
    torch.testing.assert_close(epistemic.variance, method.novelty.variance(new, prior))


def test_a_single_token_warns_that_the_epistemic_variance_is_zero():
    nsac = METHODS["nsac"](TableProblem(1, 1, tokens="features"))
    with pytest.warns(UserWarning, match="epistemic variance is 0"):
        assert (nsac.predict({"x": torch.randn(3, 1)}).epistemic < 1e-12).all()


def test_a_single_variable_without_calendar_has_epistemic_variance():
    nsac = METHODS["nsac"](WindowProblem(1, 1, lookback=6))
    assert (nsac.predict({"x": torch.randn(3, 6, 1)}).epistemic > 0).all()
