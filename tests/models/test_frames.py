import pytest
import torch

from nsac.models import FrameEncoder


def test_every_frame_becomes_a_grid_of_tokens(generator):
    encoder = FrameEncoder(input_dim=3, frames=2)
    assert encoder({"x": torch.randn(5, 2, 3, 48, 48, generator=generator)}).tokens.shape == (5, 32, 64)


@pytest.mark.parametrize(
    ("stack", "size", "channels", "last", "tokens"),
    [("racing", (84, 84), 1, (32, 20, 20), 16), ("pilot", (66, 200), 3, (64, 1, 18), 18)],
)
def test_a_stack_has_the_expected_feature_maps_and_tokens(stack, size, channels, last, tokens, generator):
    encoder = FrameEncoder(channels, 2, stack, size)
    x = torch.randn(3, 2, channels, *size, generator=generator)
    assert encoder.conv(x[:, 0]).shape == (3, *last)
    seen = encoder({"x": x})
    assert seen.tokens.shape == (3, 2 * tokens, 64) and seen.query.shape == (3, 1, 64)
    with pytest.raises(ValueError, match="`x` must have shape"):
        encoder({"x": x[..., 1:]})


@pytest.mark.parametrize("stack", ["racing", "pilot"])
def test_a_stack_of_fixed_size_needs_the_size(stack):
    with pytest.raises(ValueError, match="`size` must be given"):
        FrameEncoder(1, 2, stack)


@pytest.mark.parametrize("stack", ["racing", "pilot"])
def test_an_image_without_room_for_a_patch_is_refused(stack):
    with pytest.raises(ValueError, match="smaller than a patch"):
        FrameEncoder(1, 2, stack, (20, 20))
