"""Pictures of drives: where pilots look, and the closed loop as a whole."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nsac.lab.driving.lap import Lap, drive_lap
from nsac.lab.driving.pilot import Memory, Pilot
from nsac.lab.driving.records import DriveRecord
from nsac.lab.driving.saliency import grad_cam
from nsac.lab.driving.world import World
from nsac.uncertainty.style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 0.6
"""How strongly a map of saliency covers its frame."""


def moments_of(world: World, track: int, at: Sequence[int]) -> list[list[np.ndarray]]:
    """The frames of the expert's lap up to each moment, so that all pilots are asked about the same ones."""
    frames: list[np.ndarray] = []
    drive_lap(world, None, track, watch=lambda w, _, __: frames.append(w.frame), limit=max(at) + 1)
    return [frames[max(0, min(i, len(frames) - 1) - 3) : min(i, len(frames) - 1) + 1] for i in at]


def look(pilot: Pilot, frames: Sequence[np.ndarray]) -> np.ndarray:
    """Grad-CAM of the steering after some frames."""
    memory = Memory(pilot.length)
    seen = [memory.see(frame) for frame in frames][-1]
    return grad_cam(pilot.method, pilot.sees(seen[None]), 0, pilot.config.num_samples)[0]


def saliency_figure(pilots: Sequence[Pilot], world: World, track: int, at: Sequence[int]) -> "Figure":
    """A row per pilot, a column per moment; bright is what the steering hangs on."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        seen = moments_of(world, track, at)
        figure = Figure(figsize=(2 * len(at), 2.1 * len(pilots) + 0.2), layout="constrained")
        axes = figure.subplots(len(pilots), len(at), squeeze=False)
        for pilot, line in zip(pilots, axes, strict=True):
            for frames, moment, ax in zip(seen, at, line, strict=True):
                _overlay(ax, frames[-1], look(pilot, frames))
                ax.set_title(f"{pilot.name}, action {moment}", fontsize=8)
    return figure


def closed_loop_figure(
    pilots: Sequence[Pilot], world: World, track: int, records: Sequence[DriveRecord] = ()
) -> "Figure":
    """Five panels: the track, distances from its centreline, actions, saliency, and success in other colours."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    laps = {pilot.name: drive_lap(world, pilot, track) for pilot in pilots}
    expert = drive_lap(world, None, track)
    colours = {"expert": "black", **{name: f"C{i}" for i, name in enumerate(laps)}}
    bends = np.argsort(-np.abs(expert.actions[20:, 0]))[:1] + 20
    with rc_context(STYLE):
        figure = Figure(figsize=(12, 6.5), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.6, 1))  # pyright: ignore[reportGeneralTypeIssues]
        above = top.subplot_mosaic([["map", "off", "steer"], ["map", "off", "pedals"]], width_ratios=(1, 1.3, 1.3))
        _map(above["map"], expert, laps, colours)
        for name, lap in {"expert": expert, **laps}.items():
            steer, gas, brake = lap.actions.T
            for place, values in (("off", lap.distances), ("steer", steer), ("pedals", gas - brake)):
                above[place].plot(lap.shares, values, color=colours[name], label=name, linewidth=0.8)
        for place, title in (
            ("off", "B  distance from the centreline"),
            ("steer", "C  steering"),
            ("pedals", "gas less brake"),
        ):
            above[place].set_title(title)
            above[place].set_xlabel("share of the lap")
        above["off"].axhline(expert.half_width, color="0.7", linestyle="--", linewidth=0.8)  # here the road ends
        above["off"].set_ylim(0, 2 * expert.half_width)
        above["off"].legend(fontsize=7)
        below = bottom.subplots(1, len(pilots) + 1)
        (frames,) = moments_of(world, track, [int(bends[0])])
        for i, (ax, pilot) in enumerate(zip(below, pilots, strict=False)):
            _overlay(ax, frames[-1], look(pilot, frames))
            ax.set_title(f"D  {pilot.name}" if i == 0 else pilot.name)
        _bars(below[-1], records, colours)
    return figure


def _map(ax, expert: Lap, laps: dict[str, Lap], colours: dict[str, str]) -> None:
    ax.plot(*np.append(expert.track, expert.track[:1], 0).T, color="0.8", linewidth=4)
    for name, lap in laps.items():
        ax.plot(*lap.positions.T, color=colours[name], linewidth=0.8)
    ax.plot(*expert.positions[0], "k^", markersize=5)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title("A  track")


def _overlay(ax, frame: np.ndarray, heat: np.ndarray) -> None:
    ax.imshow(frame, cmap="gray", vmin=0, vmax=255)
    ax.imshow(heat, cmap="inferno", alpha=SHOWN * heat, vmin=0, vmax=1)
    ax.axis("off")


def _bars(ax, records: Sequence[DriveRecord], colours: dict[str, str]) -> None:
    rates: dict[str, list[float]] = {name: [] for name in colours}
    for record in records:
        if record.measures.get("noise_success") is not None:
            rates.setdefault(record.method, []).append(record.measures["noise_success"])  # type: ignore[arg-type]
    rates = {name: rate for name, rate in rates.items() if rate}
    means = [float(np.mean(rate)) for rate in rates.values()]
    spread = [float(np.std(rate, ddof=1)) if len(rate) > 1 else 0.0 for rate in rates.values()]
    ax.bar(list(rates), means, yerr=spread, color=[colours.get(name, "0.6") for name in rates], capsize=3)
    ax.set_ylim(0, 1.05)
    ax.tick_params(axis="x", rotation=60)
    ax.set_title("E  success")
