"""The encoder of images: convolutions over each, and a token for every place."""

from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, gelu
from typing_extensions import override

from nsac._checks import check_choice, check_dtype, check_known, check_shape
from nsac.layers.clock import TimeMode
from nsac.layers.describe import ROUGHNESS_FLOOR
from nsac.layers.init import seeded, seeded_linear
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

THUMBNAIL, GRID = 6, 4
"""Pixels of a thumbnail's side, and places of an averaged map."""

M = TypeVar("M", bound=nn.Module)


class Stack(NamedTuple):
    """Convolutions over one image."""

    layers: tuple[tuple[int, int, int, int], ...]
    """channels, kernel, stride and padding of each"""
    patch: int
    """places of the last map, along each side, that make a token; 0: the map is averaged to 4 x 4 tokens"""


STACKS = {
    "plain": Stack(((16, 5, 2, 0), (32, 3, 2, 0), (64, 3, 1, 0)), 0),
    "racing": Stack(((12, 5, 2, 0), (24, 3, 2, 1), (32, 3, 1, 1)), 5),  # 84 x 84: a last map of 20 x 20
    "pilot": Stack(((24, 5, 2, 0), (36, 5, 2, 0), (48, 5, 2, 0), (64, 3, 1, 0), (64, 3, 1, 0)), 1),  # 66 x 200: 1 x 18
}
"""By name. A plain one takes images of any size."""


class FrameEncoder(AbstractEncoder):
    """Short sequences of images (`x`, (B, S, C, H, W)) to tokens: a grid of places in each frame.

    The mean token asks; where the size of images is fixed, a linear map of all tokens does, which knows where each is.

    Args:
        channels: of an image.
        frames: of a sequence.
        stack: one of `STACKS`.
        size: height and width of an image; for the plain stack it need not be known.
        width: size of a token.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "none"
    per_query: ClassVar[bool] = False

    def __init__(
        self,
        channels: int = 1,
        frames: int = 4,
        stack: str = "plain",
        size: tuple[int, int] | None = None,
        width: int = 64,
        seed: int = 0,
    ):
        super().__init__()
        check_choice("stack", stack, tuple(STACKS))
        self.channels, self.frames = channels, frames
        self.token_dim, self.query_dim, self.skip_dim = width, width, 0
        layers, patch = STACKS[stack]
        self.conv = _by_pixel(seeded(lambda: _convolutions(channels, layers), seed))
        self.ask = None
        if patch:
            self.size = (-1, -1) if size is None else size
            places = _places(layers, patch, size, stack)
            self.pool = _by_pixel(seeded(lambda: nn.Conv2d(layers[-1][0], width, patch, patch), seed + 2))
            self.ask = seeded_linear(frames * places * width, width, seed + 3)
        else:
            self.size, places = (-1, -1), GRID**2
            self.pool = nn.AdaptiveAvgPool2d(GRID)
        self.place = seeded(lambda: nn.Embedding(frames * places, width), seed + 1)
        self.description_dim = channels * (THUMBNAIL**2 + 2)

    @override
    def describe(self, batch: Batch) -> Tensor:
        """A thumbnail of the last frame, and mean and logarithm of the deviation of its pixels."""
        last = batch["x"][:, -1]
        std, mean = torch.std_mean(last, (-2, -1))
        small = adaptive_avg_pool2d(last, THUMBNAIL).flatten(1)
        return torch.cat([small, mean, (std + ROUGHNESS_FLOOR).log()], -1).unsqueeze(1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x = batch["x"]
        shape = (-1, self.frames, self.channels, *self.size)
        check_shape("x", x, "(batch, frames, channels, height, width)", shape)
        check_dtype("x", x, self.place.weight.dtype)
        check_known("x", x, missing=False)
        maps = self.pool(self.conv(x.flatten(0, 1)))  # (b s) w g g
        tokens = maps.flatten(2).mT.unflatten(0, (len(x), -1)).flatten(1, 2)
        whole = tokens.flatten(1)
        tokens = tokens + self.place.weight
        query = tokens.mean(1, keepdim=True) if self.ask is None else gelu(self.ask(whole)).unsqueeze(1)
        return Encoded(tokens, query)


def _convolutions(channels: int, layers: tuple[tuple[int, int, int, int], ...]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for out, kernel, stride, padding in layers:
        parts += [nn.Conv2d(channels, out, kernel, stride, padding), nn.ELU()]
        channels = out
    return nn.Sequential(*parts)


def _by_pixel(part: M) -> M:
    """Channels side by side in memory, which processors are a quarter faster with."""
    return part.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def _places(layers: tuple[tuple[int, int, int, int], ...], patch: int, size: tuple[int, int] | None, name: str) -> int:
    """Tokens of one image."""
    if size is None:
        raise ValueError(f"`size` must be given for stack {name!r}. Got None instead.")
    sides = size
    for _, kernel, stride, padding in layers:
        sides = tuple((side + 2 * padding - kernel) // stride + 1 for side in sides)
    if min(sides) < patch:
        raise ValueError(f"`size` is too small for stack {name!r}. Got {size} instead: nothing is left of an image.")
    return (sides[0] // patch) * (sides[1] // patch)
