import torch

from nsac.models import SeriesEncoder
from support.problems import scattered


def test_times_are_relative_to_the_first_observation(generator):
    encoder = SeriesEncoder(1)
    batch = {
        "x": torch.randn(2, 5, 1, generator=generator),
        "times": torch.rand(2, 5, generator=generator).sort(-1).values,
        "query_times": torch.rand(2, 3, generator=generator),
    }
    later = {**batch, "times": batch["times"] + 8, "query_times": batch["query_times"] + 8}
    torch.testing.assert_close(encoder(batch).tokens, encoder(later).tokens)
    torch.testing.assert_close(encoder(batch).query, encoder(later).query)


def test_masked_observations_do_not_enter_a_description(generator):
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


def test_a_description_in_single_precision_does_not_depend_on_the_origin_of_time(generator):
    batch = scattered(20, generator=generator).train.columns
    encoder = SeriesEncoder(1).float()
    now = {name: v.float() if v.is_floating_point() and name == "x" else v for name, v in batch.items()}
    later = {**now, "times": now["times"] + 1.7e9, "query_times": now["query_times"] + 1.7e9}
    torch.testing.assert_close(encoder.describe(later), encoder.describe(now), rtol=1e-3, atol=1e-3)
