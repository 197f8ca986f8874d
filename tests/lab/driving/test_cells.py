import numpy as np
import pytest

from nsac.lab.driving.cells import Thresholds, TracedLap, balanced_accuracy, cells_figure, separation, trace_lap
from nsac.lab.driving.world import DrivingError, World
from support.roads import single, untrained  # noqa: F401


def made_lap(seed: int, n: int = 300):
    """A lap whose phi follows the steering, while the other signals do not."""
    random = np.random.default_rng(seed)
    steering = random.choice([-0.5, 0.0, 0.5], n)

    class Driven:
        actions, track, positions = np.stack([steering] * 3, 1), random.normal(size=(9, 2)), random.normal(size=(n, 2))

        def __len__(self) -> int:
            return n

    Driven.seed = seed
    noise = {name: random.normal(size=(n, 2)) for name in ("kappa", "psi", "logit")}
    phi = np.stack([random.normal(size=n), -steering + 0.05 * random.normal(size=n)], 1)
    centroids = {name: random.normal(size=n) for name in ("q", "k", "v")}
    return TracedLap(Driven(), {"phi": phi, **noise}, centroids, random.normal(size=(n, 4)), random.normal(size=(n, 3)))


def test_thresholds_find_turns_in_either_direction():
    turns = np.repeat([0, 1, 2], 50)
    for sign in (1, -1):
        found, accuracy = Thresholds.fit(sign * turns + 0.0, turns)
        assert accuracy == 1 and (found.predict(sign * turns + 0.0) == turns).all()


def test_balanced_accuracy_of_a_constant_is_a_third():
    assert balanced_accuracy(np.ones(100, dtype=int), np.array([0] * 10 + [1] * 80 + [2] * 10)) == pytest.approx(1 / 3)


def test_a_signal_that_follows_the_steering_separates_unseen_laps():
    table = separation([made_lap(0), made_lap(1)], [made_lap(2)])
    assert table["phi"]["head"] > 0.97 and table["phi"]["best_head"] == 1 and table["all gates"]["mean"] > 0.97
    assert table["kappa"]["head"] < 0.5 and "below -0.10 left" in table["phi"]["paper"]


def test_laps_without_turns_are_refused():
    lap = made_lap(0)
    lap.lap.actions[:] = 0
    with pytest.raises(DrivingError, match="have no action 'left'"):
        separation([lap], [made_lap(1)])


def test_the_figure_shows_the_accuracies():
    laps = [made_lap(0), made_lap(1)]
    figure = cells_figure(laps[1], separation(laps[:1], laps[1:]))
    assert any("phi: " in ax.get_title(loc="left") and "head 2" in ax.get_title(loc="left") for ax in figure.axes)


def test_every_action_of_a_lap_is_traced():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    world = World()
    traced = trace_lap(untrained("nsac"), world, 3, limit=6)
    world.close()
    assert len(traced.lap) == 6 and traced.signals["phi"].shape[0] == 6 == len(traced.inter)


def test_other_methods_have_no_such_gates():
    with pytest.raises(DrivingError, match="need the method 'nsac'. The policy has 'gmle'"):
        trace_lap(untrained("gmle"), None, 3)
