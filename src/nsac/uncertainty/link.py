"""Targets that are positive or bounded: an increasing map to the real line, where a Gaussian mixture predicts them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from nsac._checks import check_choice, check_positive, refuse_where

LINKS = ("identity", "log", "softplus", "logit")
MARGIN_RANGE = 1e-3, 0.1
"""Smallest and largest margin that `Link.fit` chooses, relative to the typical distance of a target from a bound."""
MAX_EXPONENT = 300.0
"""Largest logarithm of a distance from a bound: about 1e130, whose square is finite in double precision."""


@dataclass(frozen=True)
class Link:
    r"""An increasing map $z = g(y)$ from a range of targets, bounds included, to the real line.

    With the distances $a = y - lower + margin$ and $b = upper - y + margin$, $z$ is $y$ for "identity", $\log a$ (or
    $-\log b$, if only `upper` is given) for "log", $\log(e^{a/scale} - 1)$, mirrored likewise, for "softplus", and
    $\log(a/b)$ for "logit". The margin makes the map finite on the bounds. Its inverse is clamped to the range: a $z$
    beyond $g(lower)$ means a target on the bound itself, which so has a probability of its own.
    """

    name: str
    lower: float | None = None
    upper: float | None = None
    scale: float = 1.0
    """in the unit of the target: softplus is nearly linear at larger distances from the bound, logarithmic at smaller
    ones; the other links ignore it"""
    margin: float = 1e-6
    """in the unit of the target, small compared to the distance of most targets from a bound; see `fit`"""

    def __post_init__(self):
        check_choice("name", self.name, LINKS)
        for name in ("lower", "upper", "scale", "margin"):
            value = getattr(self, name)
            optional = value is None and name in ("lower", "upper")
            if not optional and (isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value)):
                raise ValueError(f"`{name}` of a link must be a finite number. Got {value!r} instead.")
        check_positive("scale", self.scale)
        check_positive("margin", self.margin)
        bounds = [bound for bound in (self.lower, self.upper) if bound is not None]
        needed, rule = {"identity": (0, "no bound"), "logit": (2, "both bounds")}.get(self.name, (1, "one bound"))
        if len(bounds) != needed:
            raise ValueError(
                f"`lower` and `upper` must have {rule} for the link {self.name!r}. Got {self.lower} and {self.upper} "
                "instead. Take 'log' or 'softplus' for one bound, 'logit' for both and 'identity' for none."
            )
        if needed == 2 and not (bounds[0] < bounds[1] and _finite(bounds[1] - bounds[0])):
            raise ValueError(f"`lower` must be below `upper`. Got {self.lower} and {self.upper} instead.")

    @classmethod
    def fit(cls, name: str, y: Tensor, lower: float | None = None, upper: float | None = None) -> "Link":
        """A link whose `scale` and `margin` suit these targets; NaN is a missing target.

        The typical distance from a bound is the median over the targets that are not on it, or the standard deviation
        of all targets where that is smaller. It is the `scale`. The `margin` is half the smallest distance of a target
        that is not on a bound (half the resolution of counts and of rounded values), but between 0.001 and 0.1 of the
        typical distance, so that a target on the bound is no outlier among the transformed ones.
        """
        link = cls(name, lower, upper)
        y = y.detach()[~y.isnan()]
        link._check_range(y)
        y = y.double()
        bounds = [bound for bound in (lower, upper) if bound is not None]
        distances = torch.cat([(y - bound).abs() for bound in bounds] or [y[:0]])
        distances = distances[distances > 0]
        if not len(distances):
            return cls(name, lower, upper)
        typical = min((y - bound).abs()[y != bound].median().item() for bound in bounds if bool((y != bound).any()))
        std = y.std(correction=0).item()
        typical = min(typical, std) if std > 0 else typical
        low, high = MARGIN_RANGE
        margin = min(max(distances.min().item() / 2, low * typical), high * typical)
        return cls(name, lower, upper, typical, margin)

    def forward(self, y: Tensor) -> Tensor:
        """From targets to the real line, in double precision; NaN stays NaN."""
        self._check_range(y)
        a, b = self._distances(y.double())
        if self.name == "logit":
            return a.log() - b.log()
        if self.name == "identity":
            return y.double()
        t = a if self.upper is None else b
        if self.name == "log":
            z = t.log()
        else:
            t = t / self.scale
            z = t + (-torch.expm1(-t)).log()
        return z if self.upper is None else -z

    def inverse(self, z: Tensor) -> Tensor:
        """From the real line to targets, in double precision, never outside the bounds."""
        z = z.double()
        if self.name == "identity":
            return z
        if self.name == "logit":
            assert self.lower is not None and self.upper is not None
            width = self.upper - self.lower + 2 * self.margin
            # from the nearer bound, so that small distances from either keep their digits
            y = torch.where(
                z < 0,
                self.lower + (width * z.sigmoid() - self.margin),
                self.upper - (width * (-z).sigmoid() - self.margin),
            )
        else:
            t = z if self.upper is None else -z
            if self.name == "log":
                distance = t.clamp(max=MAX_EXPONENT).exp()
            else:
                distance = self.scale * torch.logaddexp(t, torch.zeros_like(t))
            distance = distance - self.margin
            y = (self.lower or 0.0) + distance if self.upper is None else self.upper - distance
        return self.clamp(y)

    def log_derivative(self, y: Tensor) -> Tensor:
        """Logarithm of the slope of `forward` at `y`."""
        self._check_range(y)
        a, b = self._distances(y.double())
        if self.name == "identity":
            return torch.zeros_like(a)
        if self.name == "logit":
            return (1 / a + 1 / b).log()
        t = a if self.upper is None else b
        if self.name == "log":
            return -t.log()
        return -math.log(self.scale) - (-torch.expm1(-t / self.scale)).log()

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Link":
        """Inverse of `to_dict`; the values are checked."""
        names = {field.name for field in fields(cls)}
        if not isinstance(state, Mapping) or set(state) != names:
            got = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise ValueError(f"A link must have the values {', '.join(sorted(names))}. Got {got} instead.")
        return cls(**state)

    def _check_range(self, y: Tensor) -> None:
        low, high = self.lower, self.upper
        bad = torch.zeros_like(y, dtype=torch.bool)
        bad = bad if low is None else bad | (y < low)
        bad = bad if high is None else bad | (y > high)
        rule = " and ".join(
            f"{side} {bound}" for side, bound in (("at least", low), ("at most", high)) if bound is not None
        )
        hint = "Widen the range, or correct these targets."
        refuse_where(bad, "`target_range`", y, f"contain every target: they are {rule}", hint)

    def _distances(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """From the widened range's ends; a clamp, because a bound in single precision is not that of the link."""
        y = self.clamp(y)
        a = y if self.lower is None else y - self.lower + self.margin
        return a, y if self.upper is None else self.upper - y + self.margin

    def clamp(self, y: Tensor) -> Tensor:
        """The nearest values in the range."""
        return y if self.lower is None and self.upper is None else y.clamp(self.lower, self.upper)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number above the largest float
        return False
