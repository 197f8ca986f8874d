import torch

from nsac.models import WindowEncoder

NAN = float("nan")


def test_a_window_is_encoded_relative_to_its_last_observed_values(generator):
    encoder = WindowEncoder(8, 3, missing=True)
    x = torch.randn(2, 8, 3, generator=generator)
    x[0, -2:, 1] = NAN
    x[1, :, 2] = NAN
    encoded = encoder({"x": x})
    assert encoded.tokens.isfinite().all()
    assert encoded.mask.tolist() == [[False, False, False], [False, False, True]]
    shifted = x.clone()
    shifted[0, :, 1] += 5  # only the offset of one variable changes
    moved = encoder({"x": shifted}).tokens - encoded.tokens
    assert (moved[0, 1] != 0).any() and (moved[0, [0, 2]] == 0).all() and (moved[1] == 0).all()


def test_the_skip_features_are_differences_to_the_last_values(generator):
    x = torch.randn(2, 8, 3, generator=generator)
    encoder = WindowEncoder(8, 3, skip=True)
    encoded = encoder({"x": x})
    torch.testing.assert_close(encoded.skip, (x - x[:, -1:]).mT.flatten(1).unsqueeze(1))
    assert encoded.mask is None


def test_the_query_depends_on_which_variable_changed(generator):
    x = torch.randn(1, 8, 3, generator=generator)
    encoder = WindowEncoder(8, 3)
    first, second = encoder({"x": x}).query, encoder({"x": x[..., [1, 0, 2]]}).query
    assert (first - second).abs().max() > 1e-3


def test_each_of_several_targets_has_its_own_query(generator):
    x = torch.randn(2, 8, 3, generator=generator)
    encoded = WindowEncoder(8, 3, skip=True, targets=(2, 0))({"x": x})
    torch.testing.assert_close(encoded.query, encoded.tokens[:, [2, 0]])
    torch.testing.assert_close(encoded.skip, (x - x[:, -1:]).mT[:, [2, 0]])


def test_a_calendar_is_one_more_token(generator):
    encoder = WindowEncoder(8, 3, calendar_dim=2)
    batch = {"x": torch.randn(2, 8, 3, generator=generator), "calendar": torch.randn(2, 2, generator=generator)}
    assert encoder(batch).tokens.shape == (2, 4, 64)


def test_relative_differences_do_not_depend_on_the_amplitude(generator):
    encoder = WindowEncoder(8, 2, amplitudes=(1.0, 2.0), skip=True)
    x = 10 * torch.randn(1, 8, 2, generator=generator)
    small = x[:, -1:] + (x - x[:, -1:]) / 3
    one, other = encoder({"x": x}), encoder({"x": small})
    assert (one.skip - other.skip).abs().max() < 0.05  # the minimum amplitude has a small effect
    assert not torch.allclose(one.tokens, other.tokens)  # the amplitude itself is encoded
    assert encoder({"x": torch.zeros(1, 8, 2)}).tokens.isfinite().all()


def test_last_values_beyond_the_largest_level_are_cut(generator):
    x = torch.randn(2, 8, 3, generator=generator)
    far = x - x[:, -1:] + torch.tensor([5.0, 0.5, -9.0])  # the same changes at other levels
    cut = x - x[:, -1:] + torch.tensor([2.0, 0.5, -2.0])
    encoder = WindowEncoder(8, 3, max_level=2.0)
    torch.testing.assert_close(encoder({"x": far}).tokens, encoder({"x": cut}).tokens)
    assert not torch.equal(encoder.describe({"x": far}), encoder.describe({"x": cut}))  # novelty sees them all
    assert not torch.allclose(WindowEncoder(8, 3)({"x": far}).tokens, WindowEncoder(8, 3)({"x": cut}).tokens)


def test_a_single_variable_gets_a_second_token(generator):
    encoded = WindowEncoder(8, 1, missing=True)({"x": torch.randn(2, 8, 1, generator=generator)})
    assert encoded.tokens.shape == (2, 2, 64) and not encoded.mask.any()


def test_a_description_of_a_window_with_missing_values_is_finite(generator):
    x = torch.randn(4, 10, 3, generator=generator)
    x[0, :, 1], x[1, 3:6, 0], x[2, -1, 2], x[3, 0, 0] = (float("nan"),) * 4
    window = WindowEncoder(10, 3, missing=True).describe({"x": x})
    assert torch.isfinite(window).all() and not torch.equal(window[0], window[1])


def test_a_description_of_a_frozen_sensor_differs_from_that_of_a_live_one(generator):
    x = torch.randn(2, 48, 2, generator=generator).cumsum(1)
    frozen = x.clone()
    frozen[:, 10:, 0] = frozen[:, 10:11, 0]
    encoder = WindowEncoder(48, 2)
    live, dead = encoder.describe({"x": x})[:, 0], encoder.describe({"x": frozen})[:, 0]
    assert ((live - dead).abs() > 0.1).any(-1).all()
