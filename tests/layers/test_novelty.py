import pytest
import torch

from nsac.core import matched_normal
from nsac.layers import Novelty
from nsac.layers.novelty import MIN_POSTERIOR_SHARE, MIN_SQUARED_DISTANCE
from nsac.methods import METHODS, NSACMethod, TableProblem, fit
from nsac.models.series import SeriesEncoder
from nsac.models.table import TableEncoder
from nsac.models.windows import WindowEncoder
from nsac.training import TensorData, TrainConfig
from nsac.uncertainty import ood_auroc
from support import ALPHA
from support.problems import scattered, sine, walk

SHORT = TrainConfig(max_steps=20, accelerator="cpu")


def known(n=500, dims=3, generator=None):
    return torch.randn(n, 1, dims, generator=generator) * torch.tensor([1.0, 5.0, 0.1][:dims])


def newness(novelty, x):
    return novelty(x)[0]


# Novelty.


def test_training_inputs_are_known_and_distant_ones_are_not(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    near, far = newness(novelty, known(generator=generator)), newness(novelty, x * 20)
    assert far.median() > 100 * near.median() and (far > near.quantile(0.9)).double().mean() > 0.9


def test_the_unit_of_a_feature_does_not_matter(generator):
    x, asked = known(generator=generator), 3 * known(50, generator=generator)
    one, two = Novelty(3, 1), Novelty(3, 1)
    unit = torch.tensor([10.0, 1.0, 100.0])
    one.fit(x)
    two.fit(unit * x - 7)
    # Not to the last digit: which of many equally unknown directions are kept depends on the rounding of the
    # eigenvectors, hence on the processor. Most rows do not see them, and the order of rows hardly changes.
    a, b = newness(one, asked).log().flatten(), newness(two, unit * asked - 7).log().flatten()
    assert torch.corrcoef(torch.stack([a, b]))[0, 1] > 0.99 and (a - b).abs().median() < 1e-6


def test_a_correlation_that_is_broken_is_new(generator):
    a = torch.randn(1000, 1, 1, generator=generator)
    x = torch.cat([a, a + 0.1 * torch.randn(1000, 1, 1, generator=generator)], -1)
    novelty = Novelty(2, 1)
    novelty.fit(x[:900])
    usual = newness(novelty, x[900:])
    broken = newness(novelty, x[900:] * torch.tensor([1.0, -1.0]))
    assert broken.median() > 5 * usual.median()


def test_constant_and_repeated_inputs_are_no_trouble(generator):
    x = known(generator=generator)
    x[..., 1] = 4.0
    for inputs in (x, x[:1].expand(200, -1, -1), x.repeat(2, 1, 1), x[:1]):
        novelty = Novelty(3, 1)
        novelty.fit(inputs)
        assert all(torch.isfinite(part).all() for part in novelty(x))


def test_the_variance_is_proportional_to_the_amplitude_nearby_and_the_prior_far_away(generator):
    novelty = Novelty(3, 1)
    novelty.fit(known(generator=generator))
    new, prior = torch.tensor([1e-6, 1e9]), torch.tensor([1.0, 2.5])
    for amplitude in (0.1, 10.0):
        novelty.log_amplitude.fill_(amplitude).log_()
        near, far = novelty.variance(new, prior)
        assert near == pytest.approx(amplitude * 1e-6, rel=1e-4) and far == pytest.approx(2.5, rel=1e-6)


def test_the_amplitude_gives_the_mean_variance_that_was_asked_for(generator):
    novelty = Novelty(3, 1)
    x = known(generator=generator)
    novelty.fit(x[:400])
    new, prior = novelty(x[400:])
    novelty.set_amplitude(new, prior, lambda v: v.mean() > 0.02)
    assert novelty.variance(new, prior).mean().item() == pytest.approx(0.02, rel=1e-3)


def test_newness_is_posterior_variance_times_squared_distance_to_the_nearest(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    white = (torch.cat([x, 3 * x])[:, 0] - novelty.centre) @ novelty.whiten
    r = (novelty._features(white) @ novelty.factor).square().sum(-1)
    nearest = torch.cdist(white, novelty.kept, compute_mode="donot_use_mm_for_euclid_dist").amin(-1).square()
    torch.testing.assert_close(
        newness(novelty, torch.cat([x, 3 * x]))[:, 0],
        r.clamp(min=MIN_POSTERIOR_SHARE) * nearest.clamp(min=MIN_SQUARED_DISTANCE),
    )


def test_single_precision_cancels_no_more_than_counts(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    u = newness(novelty, x)
    torch.testing.assert_close(newness(novelty.float(), x.float()).double(), u, rtol=0.05, atol=1e-5)


# Descriptions.


def test_a_description_has_the_promised_size_and_is_finite(generator):
    for split in (sine(60, generator), walk(60, generator=generator), scattered(60, generator=generator)):
        encoder = split.problem.encoder(0)
        described = encoder.describe(split.train.columns)
        queries = split.train.columns["y"].shape[1] if split.problem.kind == "series" else 1
        assert described.shape == (len(split.train), queries, encoder.description_dim)
        assert torch.isfinite(described).all()


def test_holes_are_described_and_leave_no_nan(generator):
    x = torch.randn(4, 10, 3, generator=generator)
    x[0, :, 1], x[1, 3:6, 0], x[2, -1, 2], x[3, 0, 0] = (float("nan"),) * 4
    window = WindowEncoder(10, 3, missing=True).describe({"x": x})
    assert torch.isfinite(window).all() and not torch.equal(window[0], window[1])
    table = TableEncoder(3, (4,), missing=True)
    described = table.describe({"x": x[:, 0], "c": torch.tensor([[0], [1], [2], [4]])})
    assert torch.isfinite(described).all() and described.shape[-1] == table.description_dim == 3 + 3 + 5


def test_what_is_masked_does_not_enter_a_description(generator):
    split = scattered(20, generator=generator)
    encoder = SeriesEncoder(1)
    batch = split.train.columns
    spoilt = {**batch, "x": batch["x"].masked_fill(batch["mask"][..., None], 1e6)}
    spoilt["times"] = batch["times"].masked_fill(batch["mask"], -50.0)
    torch.testing.assert_close(encoder.describe(batch), encoder.describe(spoilt))
    nothing = {**batch, "mask": torch.ones_like(batch["mask"])}
    assert torch.isfinite(encoder.describe(nothing)).all()


def test_a_description_of_a_series_does_not_change_when_all_times_are_shifted(generator):
    batch = scattered(20, generator=generator).train.columns
    later = {**batch, "times": batch["times"] + 3.0, "query_times": batch["query_times"] + 3.0}
    encoder = SeriesEncoder(1)
    torch.testing.assert_close(encoder.describe(batch), encoder.describe(later), rtol=1e-6, atol=1e-6)


def test_a_frozen_sensor_looks_unlike_a_live_one(generator):
    x = torch.randn(2, 48, 2, generator=generator).cumsum(1)
    frozen = x.clone()
    frozen[:, 10:, 0] = frozen[:, 10:11, 0]
    live, dead = (WindowEncoder(48, 2).describe({"x": values})[:, 0] for values in (x, frozen))
    assert ((live - dead).abs() > 0.1).any(-1).all()


# The method.


def test_near_duplicates_do_not_make_everything_new(generator):
    x = torch.randn(1000, 1, 6, generator=generator)
    twice = torch.cat([x, x + 1e-2 * torch.randn(x.shape, generator=generator)])
    novelty = Novelty(6, 1)
    novelty.fit(twice)
    asked = torch.randn(500, 1, 6, generator=generator)
    assert ood_auroc(newness(novelty, asked).flatten(), newness(novelty, 2 * asked).flatten()) > 0.9


def test_with_fewer_rows_than_inputs_known_inputs_are_no_extremes(generator):
    x = torch.randn(400, 1, 300, generator=generator)
    novelty = Novelty(300, 1)
    novelty.fit(x[:100])
    new, prior = novelty(x[100:])
    assert prior.median() < 2 and ood_auroc(new.flatten(), novelty(1.5 * x[100:])[0].flatten()) > 0.9


def test_single_precision_tells_the_same_as_double(generator):
    x, asked = torch.randn(4000, 1, 2, generator=generator), torch.randn(300, 1, 2, generator=generator)
    one, two = Novelty(2, 1), Novelty(2, 1).float()
    one.fit(x)
    two.load_state_dict(one.state_dict())
    torch.testing.assert_close(newness(two, asked.float()).double(), newness(one, asked), rtol=1e-2, atol=1e-4)


def test_a_row_of_which_little_is_known_is_not_certain(generator):
    x = torch.randn(300, 3, generator=generator)
    y = x[:, :1] + 0.1 * torch.randn(300, 1, generator=generator)
    x[torch.rand(300, 3, generator=generator) < 0.2] = float("nan")
    problem = TableProblem(3, 1, missing=True, tokens="features")
    method = NSACMethod(problem)
    fit(method, TensorData(x=x[:200], y=y[:200]), TensorData(x=x[200:], y=y[200:]), SHORT)
    asked = torch.tensor([[9.0, float("nan"), float("nan")], [float("nan")] * 3])
    p = method.predict({"x": asked})
    wanted = method.novelty.variance(*method.novelty(method.network.encoder.describe({"x": asked})))
    torch.testing.assert_close(p.epistemic, wanted, rtol=0.2, atol=1e-6)


def test_absolute_times_are_no_trouble_in_single_precision(generator):
    batch = scattered(20, generator=generator).train.columns
    encoder = SeriesEncoder(1).float()
    now = {name: v.float() if v.is_floating_point() and name == "x" else v for name, v in batch.items()}
    later = {**now, "times": now["times"] + 1.7e9, "query_times": now["query_times"] + 1.7e9}
    torch.testing.assert_close(encoder.describe(later), encoder.describe(now), rtol=1e-3, atol=1e-3)


def test_the_mean_varies_by_exactly_what_novelty_says(generator):
    for split in (sine(400, generator), walk(200, generator=generator), scattered(60, generator=generator)):
        method = NSACMethod(split.problem)
        fit(method, split.train, split.validation, SHORT)
        batch = split.test.columns
        wanted = method.novelty.variance(*method.novelty(method.network.encoder.describe(batch)))
        given = method.predict(batch, 20).epistemic.mean(-1)
        torch.testing.assert_close(given.flatten(), wanted.flatten(), rtol=1e-3, atol=1e-7)


def test_the_two_variances_add_up_to_the_squared_error_of_validation(generator):
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

    mean, median, _ = ratios(-1.0)  # a head that is too sure
    assert (mean == pytest.approx(1, rel=0.02) and median > 0.44) or (
        median == pytest.approx(0.455, rel=0.02) and mean > 1
    )
    _, _, share = ratios(2.0)  # one that is not sure enough
    assert 0 < share <= 0.101


def test_a_few_large_errors_do_not_make_all_rows_unsure(generator):
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


def test_epistemic_variance_falls_as_more_is_known(generator):
    split, left = sine(3000, generator), []
    for n in (20, 1500):
        some = TensorData(**{name: column[:n] for name, column in split.train.columns.items()})
        method = NSACMethod(split.problem)
        fit(method, some, split.validation, TrainConfig(max_steps=150, accelerator="cpu"))
        left.append(method.predict(split.test.columns).epistemic.mean().item())
    assert left[1] < 0.5 * left[0]


def test_no_target_is_needed_to_know_what_is_new(generator):
    split = sine(400, generator)
    one, two = (NSACMethod(split.problem) for _ in range(2))
    one.prepare(split.train)
    two.prepare(TensorData(x=split.train.columns["x"], y=torch.zeros_like(split.train.columns["y"])))
    for a, b in zip(one.novelty.state_dict().values(), two.novelty.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_the_objective_of_the_paper_is_still_there(generator):
    split = sine(200, generator)
    method = METHODS["nsac"](split.problem, objective="paper")
    fit(method, split.train, split.validation, SHORT)
    assert {"nll", "reg", "var_id", "var_ood"} <= set(method.parts) and method.novelty is None
    with pytest.raises(ValueError, match="`objective` must be one of 'novelty', 'paper'"):
        METHODS["nsac"](TableProblem(1, 1), objective="other")
    with pytest.raises(ValueError, match="`reg_weight` must be None with objective='novelty'"):
        METHODS["nsac"](TableProblem(1, 1), reg_weight=0.1)


# Draws.


def test_matched_draws_have_the_moments_they_should(generator):
    draws = matched_normal(20, 5, 8, generator=generator).flatten(1)
    torch.testing.assert_close(draws.mean(0), torch.zeros(40))
    torch.testing.assert_close(draws.var(0, correction=0), torch.ones(40))
    block = draws[:, :19]
    torch.testing.assert_close(block.T @ block / 20, torch.eye(19))


def test_a_matched_draw_is_still_normal(generator):
    from scipy import stats

    entries = torch.stack([matched_normal(20, 19, generator=generator)[:, 3] for _ in range(2000)]).flatten()
    # An entry of a random direction in 19 dimensions, times the root of 20, is a scaled beta, not quite normal
    law = stats.beta(9, 9, loc=-(19**0.5), scale=2 * 19**0.5)
    assert stats.kstest(entries.numpy(), law.cdf).pvalue > ALPHA
    assert abs(entries.square().mean().item() - 1) < 1e-6


def test_two_draws_are_left_as_they_come():
    one, two = (torch.Generator().manual_seed(3) for _ in range(2))
    assert torch.equal(matched_normal(2, 7, generator=one), torch.randn(2, 7, generator=two))


def test_where_nothing_is_known_the_noise_is_at_least_the_usual_one(generator):
    split = sine(200, generator)
    method = NSACMethod(split.problem, 0)
    fit(method, split.train, split.validation, SHORT)
    with torch.no_grad():
        for part in (method.reader.direct, method.reader.attended):
            part.weight[1], part.bias[1] = 0.0, -4.0  # a head that has no doubt
    far = {"x": torch.full((3, split.problem.input_dim), 1e3), "y": torch.zeros(3, 1)}
    assert method.novelty is not None
    torch.testing.assert_close(method.predict(far).aleatoric, method.novelty.usual.expand(3, 1), rtol=1e-3, atol=0)
    doubt = method.novelty.epistemic(method.network.encoder.describe(far))
    new, prior = method.novelty(method.network.encoder.describe(far))
    torch.testing.assert_close(doubt.variance, method.novelty.variance(new, prior))
