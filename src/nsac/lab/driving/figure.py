"""Figures of driving: saliency maps of policies, and the closed-loop figure of the paper."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import interpolate

from nsac.lab.driving.lap import Lap, drive_lap
from nsac.lab.driving.policy import DrivingPolicy, FrameHistory
from nsac.lab.driving.records import DriveRecord
from nsac.lab.driving.world import INSTALL, DrivingError, World
from nsac.lab.grid.sheet import spread
from nsac.methods import AbstractMethod
from nsac.models import FrameEncoder
from nsac.uncertainty.style import STYLE

SALIENCY_OPACITY = 0.6
FIRST_BEND = 20
"""Actions before the sharpest bend is searched for: the camera zooms in during the first ones."""


def grad_cam(method: AbstractMethod, x: Tensor, num_samples: int = 10) -> np.ndarray:
    """How much each place of the newest frame matters for the steering, (B, H, W), 0 to 1; for all methods alike.

    It is the last feature map of the convolutions, weighted by the mean gradient of the predicted mean with respect to
    each of its channels. Absolute values are taken, since a left bend lowers the angle as a right bend raises it. For
    an ensemble it is the mean over the members. `x` are network inputs, (B, S, C, H, W).
    """
    try:
        from captum.attr import LayerGradCam
    except ImportError as err:
        raise DrivingError(f"Grad-CAM needs captum ({err}). {INSTALL}") from None
    encoders = [module for module in method.modules() if isinstance(module, FrameEncoder)]
    if not encoders:
        raise DrivingError(f"Grad-CAM needs convolutions. Method {method.name!r} has none.")

    def steering(row: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return method.draws({"x": row}, num_samples, generator).mean.mean(0)[:, 0]

    maps = []
    for row in x.split(1):
        each = [cast(Tensor, LayerGradCam(steering, encoder.conv).attribute(row))[-1:].abs() for encoder in encoders]
        maps.append(torch.stack([cam / cam.amax().clamp(min=1e-12) for cam in each]).mean(0))
    enlarged = interpolate(torch.cat(maps).detach(), tuple(x.shape[-2:]), mode="bilinear", align_corners=False)
    return (enlarged / enlarged.amax((-2, -1), keepdim=True).clamp(min=1e-12))[:, 0].numpy()


def moments_of(world: World, track: int, at: Sequence[int]) -> list[list[np.ndarray]]:
    """The frames of the expert's lap up to each moment, so that all policies see the same ones."""
    frames: list[np.ndarray] = []
    drive_lap(world, None, track, watch=lambda w, _, __: frames.append(w.frame), limit=max(at) + 1)
    return [frames[max(0, min(i, len(frames) - 1) - 3) : min(i, len(frames) - 1) + 1] for i in at]


def steering_saliency(policy: DrivingPolicy, frames: Sequence[np.ndarray]) -> np.ndarray:
    """Grad-CAM of the steering after some frames."""
    history = FrameHistory(policy.lookback)
    latest = [history.add(frame) for frame in frames][-1]
    return grad_cam(policy.method, policy.network_input(latest[None]), policy.config.num_samples)[0]


@rc_context(STYLE)
def saliency_figure(policies: Sequence[DrivingPolicy], world: World, track: int, at: Sequence[int]) -> Figure:
    """A row per policy, a column per moment; bright places matter most for the steering."""
    moments = moments_of(world, track, at)
    figure = Figure(figsize=(2 * len(at), 2.1 * len(policies) + 0.2), layout="constrained")
    axes = figure.subplots(len(policies), len(at), squeeze=False)
    for policy, line in zip(policies, axes, strict=True):
        for frames, moment, ax in zip(moments, at, line, strict=True):
            _overlay(ax, frames[-1], steering_saliency(policy, frames))
            ax.set_title(f"{policy.name}, action {moment}", fontsize=8)
    return figure


@rc_context(STYLE)
def closed_loop_figure(
    policies: Sequence[DrivingPolicy], world: World, track: int, records: Sequence[DriveRecord] = ()
) -> Figure:
    """Five panels: the track, distances from its centreline, actions, saliency, and success in other colours."""
    laps = {policy.name: drive_lap(world, policy, track) for policy in policies}
    expert = drive_lap(world, None, track)
    colours = {"expert": "black", **{name: f"C{i}" for i, name in enumerate(laps)}}
    bends = np.argsort(-np.abs(expert.actions[FIRST_BEND:, 0]))[:1] + FIRST_BEND
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.6, 1))  # pyright: ignore[reportGeneralTypeIssues]
    above = top.subplot_mosaic([["map", "off", "steer"], ["map", "off", "pedals"]], width_ratios=(1, 1.3, 1.3))
    _draw_laps(above, expert, laps, colours)
    below = bottom.subplots(1, len(policies) + 1)
    (frames,) = moments_of(world, track, [int(bends[0])])
    for i, (ax, policy) in enumerate(zip(below, policies, strict=False)):
        _overlay(ax, frames[-1], steering_saliency(policy, frames))
        ax.set_title(f"D  {policy.name}" if i == 0 else policy.name)
    _draw_success(below[-1], records, colours)
    return figure


def _draw_laps(axes: Mapping[str, Axes], expert: Lap, laps: dict[str, Lap], colours: dict[str, str]) -> None:
    road = axes["map"]
    road.plot(*np.append(expert.track, expert.track[:1], 0).T, color="0.8", linewidth=4)
    for name, lap in laps.items():
        road.plot(*lap.positions.T, color=colours[name], linewidth=0.8)
    road.plot(*expert.positions[0], "k^", markersize=5)
    road.set_aspect("equal")
    road.axis("off")
    road.set_title("A  track")
    titles = {"off": "B  distance from the centreline", "steer": "C  steering", "pedals": "throttle minus brake"}
    for name, lap in {"expert": expert, **laps}.items():
        steering, throttle, brake = lap.actions.T
        for place, values in {"off": lap.distances, "steer": steering, "pedals": throttle - brake}.items():
            axes[place].plot(lap.shares, values, color=colours[name], label=name, linewidth=0.8)
    for place, title in titles.items():
        axes[place].set_title(title)
        axes[place].set_xlabel("share of the lap")
    axes["off"].axhline(expert.half_width, color="0.7", linestyle="--", linewidth=0.8)  # edge of the road
    axes["off"].set_ylim(0, 2 * expert.half_width)
    axes["off"].legend(fontsize=7)


def _overlay(ax: Axes, frame: np.ndarray, heat: np.ndarray) -> None:
    ax.imshow(frame, cmap="gray", vmin=0, vmax=255)
    ax.imshow(heat, cmap="inferno", alpha=SALIENCY_OPACITY * heat, vmin=0, vmax=1)
    ax.axis("off")


def _draw_success(ax: Axes, records: Sequence[DriveRecord], colours: dict[str, str]) -> None:
    rates: dict[str, list[float]] = {name: [] for name in colours}
    for record in records:
        rate = record.measures.get("noise_success")
        if rate is not None:
            rates.setdefault(record.method, []).append(rate)
    spreads = {name: spread(found) for name, found in rates.items() if found}
    means = [each.mean or 0.0 for each in spreads.values()]
    stds = [each.std or 0.0 for each in spreads.values()]
    ax.bar(list(spreads), means, yerr=stds, color=[colours.get(name, "0.6") for name in spreads], capsize=3)
    ax.set_ylim(0, 1.05)
    ax.tick_params(axis="x", rotation=60)
    ax.set_title("E  success")
