"""Encoder of image sequences: convolutions over each image, and a token per position of the last feature map."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, gelu

from nsac._checks import check_choice, check_dtype, check_known, check_shape
from nsac.layers.init import seeded, seeded_linear
from nsac.layers.inputs import ROUGHNESS_FLOOR
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

THUMBNAIL, GRID = 6, 4  # side of a thumbnail in pixels, and side of an averaged feature map in tokens


class Stack(NamedTuple):
    """Convolutions over one image."""

    layers: tuple[tuple[int, int, int, int], ...]  # channels, kernel size, stride and padding of each layer
    patch: int  # side of the patch of the last feature map that becomes a token; 0: the map is averaged to 4 x 4 tokens


STACKS = {
    "plain": Stack(((16, 5, 2, 0), (32, 3, 2, 0), (64, 3, 1, 0)), 0),
    "racing": Stack(((12, 5, 2, 0), (24, 3, 2, 1), (32, 3, 1, 1)), 5),  # images of 84 x 84, last feature map of 20 x 20
    # images of 66 x 200, last feature map of 1 x 18
    "pilot": Stack(((24, 5, 2, 0), (36, 5, 2, 0), (48, 5, 2, 0), (64, 3, 1, 0), (64, 3, 1, 0)), 1),
}
"""Convolution stacks by name. The plain one takes images of any size."""


class FrameEncoder(AbstractEncoder):
    """Short sequences of images (`x`, (B, S, C, H, W)) to tokens: a grid of positions in each frame.

    The query is the mean token. Where the image size is fixed, it is a linear map of all tokens, which preserves
    their positions.

    Args:
        input_dim, frames: channels of an image, and images of a sequence.
        stack: one of `STACKS`.
        size: height and width of an image; required by all stacks but the plain one.
    """

    def __init__(
        self,
        input_dim: int = 1,
        frames: int = 4,
        stack: str = "plain",
        size: tuple[int, int] | None = None,
        seed: int = 0,
    ):
        super().__init__()
        check_choice("stack", stack, tuple(STACKS))
        self.input_dim, self.frames, width = input_dim, frames, self.token_dim
        layers, patch = STACKS[stack]
        self.conv = seeded(lambda: _convolutions(input_dim, layers), seed)
        self.ask = None  # linear map to the query; the attribute is a key of saved weights
        self.size = size if size and patch else (-1, -1)
        if patch:
            n_tokens = _tokens_per_image(stack, size)
            self.pool = seeded(lambda: nn.Conv2d(layers[-1][0], width, patch, patch), seed + 2)
            self.ask = seeded_linear(frames * n_tokens * width, width, seed + 3)
        else:
            n_tokens = GRID**2
            self.pool = nn.AdaptiveAvgPool2d(GRID)
        self.place = seeded(lambda: nn.Embedding(frames * n_tokens, width), seed + 1)  # position embedding
        self.description_dim = input_dim * (THUMBNAIL**2 + 2)
        # Channels last in memory: convolutions then take a quarter less time.
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def describe(self, batch: Batch) -> Tensor:
        """A thumbnail of the last frame, and mean and log standard deviation of its pixels."""
        last = batch["x"][:, -1]
        std, mean = torch.std_mean(last, (-2, -1))
        thumbnail = adaptive_avg_pool2d(last, THUMBNAIL).flatten(1)
        return torch.cat([thumbnail, mean, (std + ROUGHNESS_FLOOR).log()], -1).unsqueeze(1)

    def forward(self, batch: Batch) -> Encoded:  # noqa: D102
        x = batch["x"]
        shape = (-1, self.frames, self.input_dim, *self.size)
        check_shape("x", x, "(batch, frames, channels, height, width)", shape)
        check_dtype("x", x, self.place.weight.dtype)
        check_known("x", x, missing=False)
        maps = self.pool(self.conv(x.flatten(0, 1)))  # (b s) w g g
        tokens = maps.flatten(2).mT.unflatten(0, (len(x), -1)).flatten(1, 2)
        placed = tokens + self.place.weight
        query = placed.mean(1, keepdim=True) if self.ask is None else gelu(self.ask(tokens.flatten(1))).unsqueeze(1)
        return Encoded(placed, query)


def _convolutions(channels: int, layers: tuple[tuple[int, int, int, int], ...]) -> nn.Sequential:
    modules: list[nn.Module] = []
    for out, kernel, stride, padding in layers:
        modules += [nn.Conv2d(channels, out, kernel, stride, padding), nn.ELU()]
        channels = out
    return nn.Sequential(*modules)


def _tokens_per_image(stack: str, size: tuple[int, int] | None) -> int:
    if size is None:
        raise ValueError(f"`size` must be given for stack {stack!r}. Got None instead.")
    layers, patch = STACKS[stack]
    sides = size
    for _, kernel, stride, padding in layers:
        sides = tuple((side + 2 * padding - kernel) // stride + 1 for side in sides)
    if min(sides) < patch:
        problem = "the last feature map is smaller than a patch"
        raise ValueError(f"`size` is too small for stack {stack!r}. Got {size} instead: {problem}.")
    return (sides[0] // patch) * (sides[1] // patch)
