import pytest
import torch

from nsac.lab.driving import cloning
from nsac.lab.driving.cloning import (
    KNOTS,
    Sequences,
    clone_task,
    random_shades,
    recolour,
    see,
    split_laps,
    tone_tables,
)
from nsac.lab.driving.errors import RecordingError
from nsac.lab.driving.world import FIELD, PLAIN, World, random_colours
from nsac.lab.tasks.base import load_task
from support.roads import made_recording, single  # noqa: F401


def sequences(copies=1):
    return Sequences(made_recording(), torch.arange(40), torch.zeros(3), torch.ones(3), copies)


def test_a_sequence_never_reaches_into_the_lap_before(monkeypatch):
    monkeypatch.setattr(cloning, "see", lambda frames: frames)
    data = sequences()
    numbers = data.batch(torch.tensor([0, 1, 8, 13]))["x"][:, :, 0, 0].tolist()
    assert numbers == [[0, 0, 0, 0], [0, 0, 0, 1], [8, 8, 8, 8], [10, 11, 12, 13]]


def test_copies_of_a_row_differ_in_the_field_alone_and_are_the_same_every_time():
    data = sequences(copies=6)
    rows = torch.arange(7, len(data), 40)
    one, two = data.batch(rows), data.batch(rows)
    assert len(data) == 240 and torch.equal(one["x"], two["x"])
    assert torch.equal(one["y"], one["y"][:1].expand(6, 3))
    field, indicators = one["x"][..., :FIELD, :], one["x"][..., FIELD:, :]
    assert (indicators == indicators[:1]).all() and len(torch.unique(field, dim=0)) > 3
    alone = data.batch(rows[3:4])["x"]
    torch.testing.assert_close(alone[0], one["x"][3])  # whatever else is in the batch


def test_what_is_seen_of_the_field_does_not_depend_on_light_or_contrast():
    frames = made_recording().frames[None, :4] // 4 + 60
    brighter = frames.clone()
    brighter[:, :, :FIELD] = frames[:, :, :FIELD] * 2 - 50
    torch.testing.assert_close(see(frames), see(brighter), rtol=0.1, atol=0.05)  # faint contrast counts a bit less
    assert torch.isfinite(see(torch.zeros(1, 4, 84, 84, dtype=torch.uint8))).all()


def test_tones_put_the_shades_of_the_field_where_they_should_be():
    shades = torch.tensor([[30.0, 150.0, 160.0], [200.0, 20.0, 26.0]])
    tables = tone_tables(shades)
    assert tables[:, 102].tolist() == [30, 200] and tables[:, 162].tolist() == [150, 20]
    assert tables[:, 177].tolist() == [160, 26] and tables[:, [0, 61, 255]].tolist() == [[0, 61, 255]] * 2
    assert list(KNOTS) == sorted(KNOTS) and random_shades(50, 0).shape == (50, 3)


def test_a_recoloured_recording_looks_like_the_simulator_in_those_colours():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    world, colours = World(), random_colours(3)
    views = []
    for scheme in (PLAIN, colours):
        world.start(2, scheme)
        for _ in range(40):
            frame = world.step([0.0, 0.3, 0.0])
        views.append(torch.from_numpy(frame)[None, None])
    weights = torch.tensor([0.299, 0.587, 0.114])
    shades = torch.tensor(
        [(torch.tensor(c) * weights).sum() for c in (colours.road, colours.background, colours.grass)]
    )
    guess = recolour(views[0], tone_tables(shades[None]))
    off = (guess.float() - views[1].float()).abs()
    assert off.median() <= 3 and (off > 8).float().mean() < 0.05  # the renderer rounds; edges mix shades


def test_laps_are_in_one_part_each_and_all_rows_are_somewhere():
    laps = made_recording(laps=20).laps
    parts = split_laps(laps, seed=1)
    sets = [set(laps[rows].tolist()) for rows in parts.values()]
    assert sum(map(len, sets)) == 20 and sum(map(len, parts.values())) == 160
    assert [len(s) for s in sets] == [14, 2, 2, 2]
    with pytest.raises(ValueError, match="at least 4 laps"):
        split_laps(laps[laps < 3], 0)


def test_the_task_is_scored_in_actions():
    recording = made_recording(laps=8)
    task = clone_task(recording, 0)
    batch, (shift, scale) = task.test.batch(torch.arange(3)), task.test.unit(torch.arange(3))
    torch.testing.assert_close(shift + scale * batch["y"], recording.actions[task.test.rows[:3]])
    assert batch["x"].shape == (3, 4, 1, 84, 84) and "8 laps (recording made)" in task.text


def test_the_benchmark_knows_the_task_and_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setenv("NSAC_RECORDING", str(tmp_path))
    with pytest.raises(RecordingError, match="nsac drive record"):
        load_task("carracing")


def test_a_recording_of_another_length_is_refused(monkeypatch):
    monkeypatch.setattr("nsac.lab.driving.recording.load_recording", made_recording)
    with pytest.raises(RecordingError, match="holds 40 frames.* 'carracing-48102' is learnt from 48102"):
        load_task("carracing-48102")
