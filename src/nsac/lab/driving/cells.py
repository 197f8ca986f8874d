"""Cells of a driving policy along a lap, and how well its gates alone tell left, straight and right (Figure 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nsac.explain.circuit import Trace, trace_member
from nsac.lab.driving.lap import MAX_ACTIONS, Lap, drive_lap
from nsac.lab.driving.policy import DrivingPolicy, FrameHistory
from nsac.lab.driving.world import DrivingError, World
from nsac.methods.nsac import NSACMethod
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, STYLE

TURN = 0.1  # size of the steering from which on an action is a turn; the paper does not define its turns
CLASSES = ("left", "straight", "right")
SIGNALS = ("phi", "kappa", "psi", "logit")
CHUNK_FRAMES = 64  # frames traced at once
FIRST_ACTION = 20  # actions of a lap that are left out: the camera zooms in during them
MAX_THRESHOLDS = 60  # thresholds that are tried: quantiles of the signal on the training laps
PAPER = {
    "phi": "[-0.2, 0.2]: below -0.10 left, above 0.10 right",
    "kappa": "[0.65, 0.8]: below 0.7 left, above 0.75 right",
    "psi": "[0.625, 0.75]: below 0.685 left, above 0.715 right",
    "logit": "[-0.2, 0.2]: below -0.1 left, above 0.1 right",
}
"""Ranges and thresholds that the paper states for one lap, in its section on interpretability."""


@dataclass(frozen=True)
class TracedLap:
    """A lap and the cells of the policy at each of its actions."""

    lap: Lap
    signals: dict[str, np.ndarray]  # (n, heads), gates and logits, averaged over keys by their weights
    sensory: dict[str, np.ndarray]  # (n,), centroids: mean potential of q, k and v
    inter: np.ndarray  # (n, neurons), averaged over heads and keys
    command: np.ndarray  # (n, neurons)

    @property
    def turns(self) -> np.ndarray:
        """(n,), 0 left, 1 straight, 2 right, by the policy's own steering."""
        steering = self.lap.actions[:, 0]
        return 1 + (steering > TURN).astype(int) - (steering < -TURN).astype(int)

    @property
    def used(self) -> np.ndarray:
        """(n,), whether an action counts."""
        return np.arange(len(self.lap)) >= min(FIRST_ACTION, len(self.lap) // 2)


def trace_lap(policy: DrivingPolicy, world: World, track: int, limit: int = MAX_ACTIONS) -> TracedLap:
    """Drive one lap and trace the network at every action."""
    if not isinstance(policy.method, NSACMethod):
        raise DrivingError(f"Gates kappa, phi and psi need the method 'nsac'. The policy has {policy.name!r}.")
    history, frames = FrameHistory(policy.lookback), []
    lap = drive_lap(world, policy, track, watch=lambda w, _, __: frames.append(history.add(w.frame)), limit=limit)
    traces = []
    for start in range(0, len(frames), CHUNK_FRAMES):
        x = policy.network_input(np.stack(frames[start : start + CHUNK_FRAMES]))
        traces.append(_summary(trace_member(policy.method, {"x": x}, policy.config.num_samples)))
    joined = {name: np.concatenate([each[name] for each in traces]) for name in traces[0]}
    signals, sensory = ({name: joined[name] for name in names} for names in (SIGNALS, ("q", "k", "v")))
    return TracedLap(lap, signals, sensory, joined["inter"], joined["command"])


def _summary(trace: Trace) -> dict[str, np.ndarray]:
    weights = trace.weights_mean[:, :, 0]  # b h k
    found = {name: (weights * each[:, :, 0]).sum(-1) for name, each in {**trace.gates, "logit": trace.mu}.items()}
    found |= {name: getattr(trace, name).mean((1, 2, 3)) for name in ("q", "k", "v")}
    for name in ("inter", "command"):
        found[name] = (weights[..., None] * getattr(trace, name)[:, :, 0]).sum(2).mean(1)
    return found


@dataclass(frozen=True)
class Thresholds:
    """Two thresholds of one signal: below the first is one turn, above the second the other."""

    low: float
    high: float
    rising: bool  # whether large values mean right

    @classmethod
    def fit(cls, signal: np.ndarray, turns: np.ndarray) -> tuple["Thresholds", float]:
        """The thresholds of the largest balanced accuracy, and that accuracy."""
        candidates = np.unique(np.quantile(signal, np.linspace(0, 1, MAX_THRESHOLDS)))
        below = np.stack([[(signal[turns == c] < t).mean() for t in candidates] for c in range(3)])  # class thresholds
        best, accuracy = cls(float(candidates[0]), float(candidates[-1]), True), -1.0
        for rising in (True, False):
            first, last = (0, 2) if rising else (2, 0)
            for i in range(len(candidates)):
                scores = (below[first, i] + (below[1, i:] - below[1, i]) + 1 - below[last, i:]) / 3
                j = int(scores.argmax())
                if scores[j] > accuracy:
                    accuracy = float(scores[j])
                    best = cls(float(candidates[i]), float(candidates[i + j]), rising)
        return best, accuracy

    def predict(self, signal: np.ndarray) -> np.ndarray:
        """Turns, 0 to 2."""
        turns = 1 + (signal >= self.high).astype(int) - (signal < self.low).astype(int)
        return turns if self.rising else 2 - turns


def balanced_accuracy(found: np.ndarray, turns: np.ndarray) -> float:
    """Mean over the classes of the share that is found."""
    return float(np.mean([(found[turns == c] == c).mean() for c in np.unique(turns)]))


def separation(train: Sequence[TracedLap], test: Sequence[TracedLap]) -> dict[str, dict[str, Any]]:
    """Balanced accuracy on unseen laps of thresholds that were fitted on other laps, for each signal.

    `mean` is the signal averaged over all heads, as in the paper; `head` is that of one head, the best on the training
    laps. "all gates" is a logistic regression on kappa, phi and psi of all heads.
    """

    def joined(laps: Sequence[TracedLap], name: str) -> np.ndarray:
        return np.concatenate([lap.signals[name][lap.used] for lap in laps])

    turns, unseen = (np.concatenate([lap.turns[lap.used] for lap in laps]) for laps in (train, test))
    missing = [CLASSES[c] for c in range(3) if not (turns == c).any() or not (unseen == c).any()]
    if missing:
        raise DrivingError(f"The laps have no action {missing[0]!r}. Drive more laps.")
    table: dict[str, dict[str, Any]] = {}
    for name in SIGNALS:
        known, new = joined(train, name), joined(test, name)
        over_heads, _ = Thresholds.fit(known.mean(1), turns)
        each = [Thresholds.fit(known[:, head], turns) for head in range(known.shape[1])]
        best = int(np.argmax([accuracy for _, accuracy in each]))
        table[name] = {
            "mean": balanced_accuracy(over_heads.predict(new.mean(1)), unseen),
            "head": balanced_accuracy(each[best][0].predict(new[:, best]), unseen),
            "best_head": best, "low": float(np.quantile(new, 0.01)), "high": float(np.quantile(new, 0.99)),
            "thresholds": [each[best][0].low, each[best][0].high], "paper": PAPER[name],
        }  # fmt: skip
    gates = [np.concatenate([joined(laps, name) for name in SIGNALS[:3]], 1) for laps in (train, test)]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, class_weight="balanced"))
    found = model.fit(gates[0], turns).predict(gates[1])
    table["all gates"] = {"mean": balanced_accuracy(found, unseen)}
    return table


@rc_context(STYLE)
def cells_figure(traced: TracedLap, table: dict[str, dict[str, Any]]) -> Figure:
    """The lap, sensory centroids, activity of inter and command neurons, gates and logits along it."""
    figure = Figure(figsize=(12, 9), layout="constrained")
    axes = figure.subplot_mosaic([["map", "sensory", "phi"], ["inter", "inter", "kappa"], ["command", "command", "psi"],
                                  ["command", "command", "logit"]], height_ratios=[1.3, 1, 1, 1])  # fmt: skip
    lap, steps, colours = traced.lap, np.arange(len(traced.lap)), np.array([BLUE, GREY, ORANGE])[traced.turns]
    axes["map"].plot(*lap.track.T, color="#ddd", lw=6, zorder=0)
    axes["map"].scatter(*lap.positions.T, c=colours, s=4)
    axes["map"].set(title=f"Lap on track {lap.seed}", aspect="equal", xticks=[], yticks=[])
    for i, name in enumerate(CLASSES):
        axes["map"].plot([], [], "o", color=(BLUE, GREY, ORANGE)[i], ms=4, label=name)
    axes["map"].legend(fontsize="small")
    for name, values in traced.sensory.items():
        axes["sensory"].plot(steps, values, label=name, lw=1)
    axes["sensory"].set(title="Sensory centroids", xlabel="action")
    axes["sensory"].legend(fontsize="small", ncols=3)
    for name in ("inter", "command"):
        values = getattr(traced, name).T
        axes[name].imshow(values, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axes[name].set(title=f"{name.capitalize()} neurons", ylabel="neuron", yticks=range(0, len(values), 5))
    for name in SIGNALS:
        facts, ax = table[name], axes[name]
        ax.scatter(steps, traced.signals[name][:, facts["best_head"]], c=colours, s=3)
        for threshold in facts["thresholds"]:
            ax.axhline(threshold, color=INK, lw=0.8, ls="--")
        shares = f"{100 * facts['head']:.0f} % (head {facts['best_head'] + 1}), {100 * facts['mean']:.0f} % (mean)"
        ax.set(title=f"{name}: {shares}")
    for name in ("command", "logit"):
        axes[name].set(xlabel="action")
    return figure


def study_cells(
    policy: DrivingPolicy, world: World, train: Sequence[int], test: Sequence[int], limit: int = MAX_ACTIONS
) -> tuple[dict[str, Any], Figure]:
    """Separation on test tracks, and the figure of the first of them."""
    with torch.no_grad():
        laps = {track: trace_lap(policy, world, track, limit) for track in (*train, *test)}
    table = separation([laps[track] for track in train], [laps[track] for track in test])
    facts = {"turn": TURN, "train": list(train), "test": list(test), "separation": table}
    facts["finished"] = [bool(laps[track].lap.finished) for track in (*train, *test)]
    return facts, cells_figure(laps[test[0]], table)
