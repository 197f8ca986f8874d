"""The reader: its shortcut must give what the equation gives."""

from functools import partial

import pytest
import torch
from torch.nn.functional import gelu

from nsac.layers import LinearReader
from nsac.layers.novelty import Epistemic
from nsac.layers.reader import LOG_STD_RANGE, join_queries, scale_draws
from nsac.methods import SeriesProblem, TableProblem
from nsac.models import Network

PROBLEM = {"table": TableProblem, "series": SeriesProblem}
BATCH = {"table": (5, 3), "series": (5, 7, 3)}


@pytest.mark.parametrize("project", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("outputs", [1, 40], ids=["narrow", "wide"])
@pytest.mark.parametrize("kind", ["table", "series"])
def test_draws_are_linear_in_the_attended_values(kind, outputs, project, generator):
    problem = PROBLEM[kind](3, outputs)
    batch = {"x": torch.randn(BATCH[kind], generator=generator)}
    if kind == "series":
        batch["times"] = torch.rand(5, 7, generator=generator).sort().values
        batch["query_times"] = torch.rand(5, 4, generator=generator)
    network = Network(problem.encoder(0), problem.network, "ou", 0)
    sizes = problem.network
    reader = LinearReader(
        network.encoder.query_dim,
        sizes.d_model,
        sizes.num_heads,
        sizes.hidden,
        outputs,
        network.encoder.skip_dim,
        project,
    )
    encoded = network.encoder(batch)
    noise = network.noise(encoded, 6, generator, shared=True)

    attended, expected = network.attend(encoded, noise), network.attend(encoded)[0]
    query = encoded.query.expand(5, -1, -1)
    h = gelu(reader.hidden(torch.cat([query, expected], -1)))
    expected = reader.attended((1 + reader.gate(h)) * attended) + reader.direct(h)
    if kind == "table":
        expected[..., :outputs] += reader.skip(encoded.skip)

    mean, log_std = reader(partial(network.attend, encoded), query, noise, encoded.skip)
    got = torch.cat([mean, log_std], -1)
    torch.testing.assert_close(got, expected)
    assert mean.std(0).min() > 1e-5  # else the noise would not have been seen


def test_scaled_draws_keep_their_mean_and_have_the_requested_variance(generator):
    draws, noise = torch.randn(7, 2, 3, 4, generator=generator), torch.randn(7, 2, 3, 1, generator=generator)
    noise -= noise.mean(0)
    variance = torch.rand(2, 3, 1, generator=generator) + 0.1
    scaled = scale_draws(draws, variance, noise)
    torch.testing.assert_close(scaled.mean(0), draws.mean(0))
    torch.testing.assert_close(scaled.var(0, correction=0).mean(-1, keepdim=True), variance)


def test_scaling_keeps_the_proportions_of_the_outputs(generator):
    draws, noise = torch.randn(7, 1, 1, 4, generator=generator), torch.zeros(7, 1, 1, 1)
    before = draws.var(0, correction=0)
    after = scale_draws(draws, torch.full((1, 1, 1), 2.0), noise).var(0, correction=0)
    torch.testing.assert_close(after / after.mean(), before / before.mean())


def test_where_all_draws_are_equal_the_noise_takes_their_place(generator):
    noise = torch.randn(7, 1, 1, 1, generator=generator)
    noise -= noise.mean(0)
    scaled = scale_draws(torch.full((7, 1, 1, 2), 3.0), torch.full((1, 1, 1), 4.0), noise)
    expected = 3 + 2 * noise / noise.square().mean().sqrt()
    torch.testing.assert_close(scaled, expected.expand(7, 1, 1, 2))


def test_output_i_of_query_q_is_column_i_times_queries_plus_q():
    outputs = torch.tensor([[[[0, 10], [1, 11], [2, 12]]]])  # three queries, two outputs
    assert join_queries(outputs).tolist() == [[[0, 1, 2, 10, 11, 12]]]


def reader(**more):
    return LinearReader(4, 8, 2, 6, 3, **more)


def attended(values):
    """Stands in for attention: the same attended values, whatever the noise."""
    return lambda noise, project: values.expand(1 if noise is None else len(noise), -1, -1, -1)


@pytest.mark.parametrize("bias, expected", [(-50.0, LOG_STD_RANGE[0]), (50.0, LOG_STD_RANGE[1])])
def test_standard_deviations_stay_in_range(bias, expected, generator):
    read, query = reader(project_values=False), torch.randn(5, 2, 4, generator=generator)
    with torch.no_grad():
        read.direct.bias[3:] = bias
    _, log_std = read(attended(torch.zeros(5, 2, 8)), query, None)
    assert (log_std == expected).all() and LOG_STD_RANGE == (-10.0, 3.0)


@pytest.mark.parametrize("least, expected", [(-50.0, LOG_STD_RANGE[0]), (1.0, 1.0), (50.0, LOG_STD_RANGE[1])])
def test_the_epistemic_variance_and_the_least_noise_are_those_of_novelty(least, expected, generator):
    read, query = reader(project_values=False), torch.randn(5, 2, 4, generator=generator)
    with torch.no_grad():
        read.direct.bias[3:] = -50.0
    noise = torch.randn(6, 1, 1, 2, 2, generator=generator)
    noise -= noise.mean(0)
    found = Epistemic(torch.full((5, 2), 0.25), torch.full((5, 2, 3), least))
    mean, log_std = read(attended(torch.zeros(1, 5, 2, 8)), query, noise, epistemic=lambda: found)
    torch.testing.assert_close(mean.var(0, correction=0), torch.full((5, 2, 3), 0.25))
    torch.testing.assert_close(log_std, torch.full((6, 5, 2, 3), expected))


def test_a_joined_reader_has_one_row_for_all_queries_and_its_skip_connection(generator):
    query, skip = torch.randn(5, 2, 4, generator=generator), torch.randn(5, 2, 7, generator=generator)
    apart, joined = (reader(project_values=False, skip_dim=7, join_queries=join) for join in (False, True))
    values = torch.randn(5, 2, 8, generator=generator)
    expected, found = (read(attended(values), query, None, skip) for read in (apart, joined))
    torch.testing.assert_close(found, tuple(join_queries(part) for part in expected))
    with_skip = apart(attended(values), query, None, skip)[0] - apart(attended(values), query, None)[0]
    torch.testing.assert_close(with_skip[0], apart.skip(skip))


def test_initial_standard_deviations_vary_a_tenth_as_much_as_means():
    read = LinearReader(4, 400, 2, 400, 50)
    for layer in (read.attended, read.direct):
        mean, log_std = layer.weight.chunk(2)
        assert (log_std.std() / mean.std()).item() == pytest.approx(0.1, rel=0.05)


def test_the_weights_of_a_reader_are_independent():
    read = LinearReader(8, 8, 2, 8, 4, skip_dim=8)
    square = [read.gate.weight, read.attended.weight, read.direct.weight]
    for i, one in enumerate(square):
        for other in square[:i]:
            assert not torch.equal(one[:4], other[:4])
    assert not torch.equal(read.skip.weight, read.direct.weight[:4])


def test_the_variance_of_joined_queries_is_that_of_their_row(generator):
    read, query = reader(project_values=False, join_queries=True), torch.randn(5, 2, 4, generator=generator)
    noise = torch.randn(6, 1, 1, 2, 2, generator=generator)
    noise -= noise.mean(0)
    values = torch.randn(7, 5, 2, 8, generator=generator)  # six draws and the noise-free pass
    found = Epistemic(torch.linspace(0.1, 0.5, 5)[:, None], torch.full((5, 1, 6), -3.0))
    mean, log_std = read(lambda noise, project: values, query, noise, epistemic=lambda: found)
    assert mean.shape == log_std.shape == (6, 5, 6)
    torch.testing.assert_close(mean.var(0, correction=0).mean(-1), torch.linspace(0.1, 0.5, 5), rtol=1e-4, atol=0)


def test_each_query_has_noise_of_its_own_where_draws_are_equal(generator):
    read, query = reader(project_values=False), torch.randn(1, 3, 4, generator=generator)
    noise = torch.randn(6, 1, 1, 2, 3, generator=generator)
    noise -= noise.mean(0)
    found = Epistemic(torch.ones(1, 3), torch.zeros(1, 3, 3))
    mean, _ = read(attended(torch.zeros(1, 1, 3, 8)), query, noise, epistemic=lambda: found)
    expected = noise[:, 0, 0, 0] / noise[:, 0, 0, 0].square().mean(0).sqrt()  # of the first key and head
    torch.testing.assert_close((mean - mean.mean(0))[:, 0, :, 0], expected)
