import pytest
import torch

from nsac.models import FrameEncoder, Network, NetworkConfig, SeriesEncoder, TableEncoder, WindowEncoder

NAN = float("nan")


@pytest.mark.parametrize("tokens", ["slots", "features"])
def test_a_missing_number_is_told_apart_from_every_value(tokens, generator):
    encoder = TableEncoder(3, tokens=tokens, missing=True)
    x = torch.randn(4, 3, generator=generator)
    holey = x.clone()
    holey[:, 1] = NAN
    seen, whole = encoder({"x": holey}), encoder({"x": x})
    zero = encoder({"x": holey.nan_to_num(0.0)})
    for part in ("query", "skip"):
        assert getattr(seen, part).isfinite().all()
        assert not torch.allclose(getattr(seen, part), getattr(zero, part))
    if tokens == "features":
        assert torch.equal(seen.mask, holey.isnan())
        assert torch.equal(seen.tokens[:, [0, 2]], whole.tokens[:, [0, 2]])
    else:
        assert not torch.allclose(seen.tokens, zero.tokens)


@pytest.mark.parametrize("tokens", ["slots", "features"])
def test_columns_that_are_not_seen_do_not_matter(tokens, generator):
    encoder = TableEncoder(4, tokens=tokens, missing=True, columns=(1, 3))
    x = torch.randn(5, 4, generator=generator)
    hidden = x.clone()
    hidden[:, [0, 2]] = NAN
    for a, b in zip(encoder({"x": x}), encoder({"x": hidden}), strict=True):
        assert (a is b) or torch.equal(a, b)
    assert torch.equal(encoder.describe({"x": x}), encoder.describe({"x": hidden}))
    assert encoder.describe({"x": x}).shape == (5, 1, encoder.description_dim)


def test_a_missing_feature_leaves_its_token_out_of_attention(generator):
    network = Network(TableEncoder(4, tokens="features", missing=True), NetworkConfig(), "ode")
    x = torch.randn(6, 4, generator=generator)
    x[:, 2] = NAN
    encoded = network.encoder({"x": x})
    poisoned = encoded._replace(tokens=encoded.tokens.clone())
    poisoned.tokens[:, 2] = 1e6
    one, two = network.attend(encoded), network.attend(poisoned)
    assert torch.equal(one, two)


def test_categories_are_tokens_and_zero_means_missing():
    encoder = TableEncoder(1, categories=(3, 2), tokens="features")
    c = torch.tensor([[1, 2], [0, 1], [3, 0]])
    encoded = encoder({"x": torch.zeros(3, 1), "c": c})
    assert encoded.tokens.shape == (3, 3, 32)
    assert encoded.mask.tolist() == [[False, False, False], [False, True, False], [False, False, True]]
    assert not torch.equal(encoded.tokens[0, 1], encoded.tokens[2, 1])


def test_a_window_is_seen_relative_to_its_last_known_values(generator):
    encoder = WindowEncoder(8, 3, missing=True)
    x = torch.randn(2, 8, 3, generator=generator)
    x[0, -2:, 1] = NAN
    x[1, :, 2] = NAN
    encoded = encoder({"x": x})
    assert encoded.tokens.isfinite().all()
    assert encoded.mask.tolist() == [[False, False, False], [False, False, True]]
    shifted = x.clone()
    shifted[0, :, 1] += 5  # only the level of one variable changes
    moved = encoder({"x": shifted}).tokens - encoded.tokens
    assert (moved[0, 1] != 0).any() and (moved[0, [0, 2]] == 0).all() and (moved[1] == 0).all()


def test_a_window_keeps_its_numbers_when_nothing_is_missing(generator):
    x = torch.randn(2, 8, 3, generator=generator)
    encoder = WindowEncoder(8, 3, skip=True)
    encoded = encoder({"x": x})
    torch.testing.assert_close(encoded.skip, (x - x[:, -1:]).mT.flatten(1).unsqueeze(1))
    assert encoded.mask is None


def test_what_asks_knows_which_variable_moved(generator):
    x = torch.randn(1, 8, 3, generator=generator)
    encoder = WindowEncoder(8, 3)
    first, second = encoder({"x": x}).query, encoder({"x": x[..., [1, 0, 2]]}).query
    assert (first - second).abs().max() > 1e-3


def test_several_targets_ask_each_for_themselves(generator):
    x = torch.randn(2, 8, 3, generator=generator)
    encoded = WindowEncoder(8, 3, skip=True, targets=(2, 0))({"x": x})
    torch.testing.assert_close(encoded.query, encoded.tokens[:, [2, 0]])
    torch.testing.assert_close(encoded.skip, (x - x[:, -1:]).mT[:, [2, 0]])


def test_a_calendar_is_one_more_token(generator):
    encoder = WindowEncoder(8, 3, calendar_dim=2)
    batch = {"x": torch.randn(2, 8, 3, generator=generator), "calendar": torch.randn(2, 2, generator=generator)}
    assert encoder(batch).tokens.shape == (2, 4, 64)


def test_series_are_seen_from_their_first_observation(generator):
    encoder = SeriesEncoder(1)
    batch = {
        "x": torch.randn(2, 5, 1, generator=generator),
        "times": torch.rand(2, 5, generator=generator).sort(-1).values,
        "query_times": torch.rand(2, 3, generator=generator),
    }
    later = {**batch, "times": batch["times"] + 8, "query_times": batch["query_times"] + 8}
    torch.testing.assert_close(encoder(batch).tokens, encoder(later).tokens)
    torch.testing.assert_close(encoder(batch).query, encoder(later).query)


def test_frames_become_places(generator):
    encoder = FrameEncoder(input_dim=3, frames=2)
    assert encoder({"x": torch.randn(5, 2, 3, 48, 48, generator=generator)}).tokens.shape == (5, 32, 64)


@pytest.mark.parametrize(
    ("stack", "size", "channels", "last", "tokens"),
    [("racing", (84, 84), 1, (32, 20, 20), 16), ("pilot", (66, 200), 3, (64, 1, 18), 18)],
)
def test_a_stack_has_the_maps_and_tokens_it_should_have(stack, size, channels, last, tokens, generator):
    encoder = FrameEncoder(channels, 2, stack, size)
    x = torch.randn(3, 2, channels, *size, generator=generator)
    assert encoder.conv(x[:, 0]).shape == (3, *last)
    seen = encoder({"x": x})
    assert seen.tokens.shape == (3, 2 * tokens, 64) and seen.query.shape == (3, 1, 64)
    with pytest.raises(ValueError, match="`x` must have shape"):
        encoder({"x": x[..., 1:]})
    with pytest.raises(ValueError, match="`size` must be given"):
        FrameEncoder(channels, 2, stack)
    with pytest.raises(ValueError, match="smaller than a patch"):
        FrameEncoder(channels, 2, stack, (20, 20))


@pytest.mark.parametrize(
    ("encoder", "x"),
    [
        (TableEncoder(3), torch.zeros(2, 4)),
        (SeriesEncoder(3), torch.zeros(2, 5, 4)),
        (WindowEncoder(8, 3), torch.zeros(2, 7, 3)),
        (FrameEncoder(1, 4), torch.zeros(2, 4, 3, 30, 30)),
    ],
)
def test_data_of_another_shape_is_named(encoder, x):
    with pytest.raises(ValueError, match="`x` must have shape"):
        encoder({"x": x})


def test_building_encoders_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    for build in (lambda: TableEncoder(3, (2,)), lambda: SeriesEncoder(1), lambda: WindowEncoder(4, 2), FrameEncoder):
        build()
    assert torch.equal(before, torch.get_rng_state())


def test_a_relative_window_looks_the_same_whatever_its_amplitude(generator):
    encoder = WindowEncoder(8, 2, amplitudes=(1.0, 2.0), skip=True)
    x = 10 * torch.randn(1, 8, 2, generator=generator)
    small = x[:, -1:] + (x - x[:, -1:]) / 3
    one, other = encoder({"x": x}), encoder({"x": small})
    assert (one.skip - other.skip).abs().max() < 0.05  # the least amplitude is seen a little
    assert not torch.allclose(one.tokens, other.tokens)  # and its size is told
    assert encoder({"x": torch.zeros(1, 8, 2)}).tokens.isfinite().all()


def test_a_variable_alone_gets_company(generator):
    encoded = WindowEncoder(8, 1, missing=True)({"x": torch.randn(2, 8, 1, generator=generator)})
    assert encoded.tokens.shape == (2, 2, 64) and not encoded.mask.any()
