import pytest
import torch

from nsac.models import FrameEncoder, SeriesEncoder, TableEncoder, WindowEncoder
from support.problems import scattered, sine, walk


@pytest.mark.parametrize(
    ("encoder", "x"),
    [
        (TableEncoder(3), torch.zeros(2, 4)),
        (SeriesEncoder(3), torch.zeros(2, 5, 4)),
        (WindowEncoder(8, 3), torch.zeros(2, 7, 3)),
        (FrameEncoder(1, 4), torch.zeros(2, 4, 3, 30, 30)),
    ],
)
def test_data_of_another_shape_is_refused(encoder, x):
    with pytest.raises(ValueError, match="`x` must have shape"):
        encoder({"x": x})


def test_building_an_encoder_does_not_touch_the_global_random_state():
    before = torch.get_rng_state()
    for build in (lambda: TableEncoder(3, (2,)), lambda: SeriesEncoder(1), lambda: WindowEncoder(4, 2), FrameEncoder):
        build()
    assert torch.equal(before, torch.get_rng_state())


def test_a_description_is_finite_and_has_its_stated_size(generator):
    for split in (sine(60, generator), walk(60, generator=generator), scattered(60, generator=generator)):
        encoder = split.problem.encoder(0)
        described = encoder.describe(split.train.columns)
        queries = split.train.columns["y"].shape[1] if split.problem.kind == "series" else 1
        assert described.shape == (len(split.train), queries, encoder.description_dim)
        assert torch.isfinite(described).all()
