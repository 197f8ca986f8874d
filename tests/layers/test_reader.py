"""The reader: its shortcut must give what the equation gives."""

from functools import partial

import pytest
import torch
from torch.nn.functional import gelu

from nsac.layers import LinearReader
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
