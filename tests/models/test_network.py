"""The reader: its shortcut must give what the equation gives."""

import pytest
import torch
from torch.nn.functional import gelu

from nsac.methods import SeriesProblem, TableProblem
from nsac.models import LinearReader, Network

PROBLEM = {"table": TableProblem, "series": SeriesProblem}
BATCH = {"table": (5, 3), "series": (5, 7, 3)}


@pytest.mark.parametrize("outputs", [1, 40], ids=["narrow", "wide"])
@pytest.mark.parametrize("kind", ["table", "series"])
def test_draws_are_linear_in_what_they_attend_to_about_layers_without_noise(kind, outputs, generator):
    problem = PROBLEM[kind](3, outputs)
    batch = {"x": torch.randn(BATCH[kind], generator=generator)}
    if kind == "series":
        batch["times"] = torch.rand(5, 7, generator=generator).sort().values
        batch["query_times"] = torch.rand(5, 4, generator=generator)
    network = Network(problem.encoder(0), problem.network, "ou", 0)
    reader = LinearReader(network, outputs, 0)
    seen = network.encoder(batch)
    noise = network.noise(seen, 6, generator, shared=True)

    attended, usual = network.attend(seen, noise), network.attend(seen)[0]
    h = gelu(reader.hidden(torch.cat([seen.query.expand(5, -1, -1), usual], -1)))
    expected = reader.attended((1 + reader.gate(h)) * attended) + reader.direct(h)
    if kind == "table":
        expected[..., :outputs] += reader.skip(seen.skip)

    mean, log_std = reader(network, batch, 6, None, shared=True, noise=noise)
    got = torch.cat([mean, log_std], -1) if kind == "series" else torch.cat([mean, log_std], -1).unsqueeze(-2)
    torch.testing.assert_close(got, expected)
    assert mean.std(0).min() > 1e-5  # else the noise would not have been seen
