import numpy as np
import pytest
import torch

from nsac.lab.datasets.carracing import FIELD, GREY, RecordingError
from nsac.lab.driving.world import PLAIN, World, random_colours
from nsac.lab.tasks import carracing
from nsac.lab.tasks.base import load_task
from nsac.lab.tasks.carracing import (
    SHADE_KNOTS,
    Sequences,
    clone_task,
    network_input,
    random_shades,
    recolour,
    split_laps,
    tone_tables,
)
from support.roads import made_recording, single  # noqa: F401


def sequences(copies=1):
    return Sequences(made_recording(), torch.arange(40), torch.zeros(3), torch.ones(3), copies)


def test_a_sequence_does_not_reach_into_the_previous_lap(monkeypatch):
    monkeypatch.setattr(carracing, "network_input", lambda frames: frames)
    numbers = sequences().batch(torch.tensor([0, 1, 8, 13]))["x"][:, :, 0, 0].tolist()
    assert numbers == [[0, 0, 0, 0], [0, 0, 0, 1], [8, 8, 8, 8], [10, 11, 12, 13]]


COPIES_OF_ROW_7 = torch.arange(7, 240, 40)


def test_copies_of_a_row_are_the_same_in_every_epoch():
    data = sequences(copies=6)
    torch.testing.assert_close(data.batch(COPIES_OF_ROW_7), data.batch(COPIES_OF_ROW_7), rtol=0, atol=0)


def test_copies_of_a_row_have_the_same_action():
    actions = sequences(copies=6).batch(COPIES_OF_ROW_7)["y"]
    assert torch.equal(actions, actions[:1].expand(6, 3))


def test_copies_of_a_row_differ_in_the_field():
    field = sequences(copies=6).batch(COPIES_OF_ROW_7)["x"][..., :FIELD, :]
    assert len(torch.unique(field, dim=0)) > 3


def test_copies_of_a_row_have_the_same_indicators():
    indicators = sequences(copies=6).batch(COPIES_OF_ROW_7)["x"][..., FIELD:, :]
    assert (indicators == indicators[:1]).all()


def test_a_copy_does_not_depend_on_the_rest_of_the_batch():
    data = sequences(copies=6)
    alone, together = data.batch(COPIES_OF_ROW_7[3:4])["x"], data.batch(COPIES_OF_ROW_7)["x"]
    torch.testing.assert_close(alone[0], together[3])


def test_the_network_input_does_not_depend_on_brightness_or_contrast():
    frames = made_recording().frames[None, :4] // 4 + 60
    brighter = frames.clone()
    brighter[:, :, :FIELD] = frames[:, :, :FIELD] * 2 - 50
    # MIN_CONTRAST makes low contrast count a little less
    torch.testing.assert_close(network_input(frames), network_input(brighter), rtol=0.1, atol=0.05)


def test_the_network_input_of_an_even_field_is_finite():
    assert torch.isfinite(network_input(torch.zeros(1, 4, 84, 84, dtype=torch.uint8))).all()


@pytest.mark.parametrize(
    "recorded, new", [(102, [30, 200]), (162, [150, 20]), (177, [160, 26])], ids=["road", "background", "grass"]
)
def test_a_tone_table_maps_recorded_shades_to_the_given_ones(recorded, new):
    tables = tone_tables(torch.tensor([[30.0, 150.0, 160.0], [200.0, 20.0, 26.0]]))
    assert tables[:, recorded].tolist() == new


def test_a_tone_table_keeps_the_shades_of_car_and_kerbs():
    tables = tone_tables(random_shades(50, 0))
    assert (tables[:, [0, 61, 255]] == torch.tensor([0, 61, 255])).all()


def test_the_knots_of_the_shades_are_sorted():
    assert list(SHADE_KNOTS) == sorted(SHADE_KNOTS)


def test_a_recoloured_frame_looks_like_the_simulator_in_those_colours():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    world, colours = World(), random_colours(3)
    frames = []
    for scheme in (PLAIN, colours):
        world.start(2, scheme)
        for _ in range(40):
            frame = world.step([0.0, 0.3, 0.0])
        frames.append(torch.from_numpy(frame)[None, None])
    shades = [np.dot(GREY, colour) for colour in (colours.road, colours.background, colours.grass)]
    guess = recolour(frames[0], tone_tables(torch.tensor([shades], dtype=torch.float32)))
    off = (guess.float() - frames[1].float()).abs()
    assert off.median() <= 3 and (off > 8).float().mean() < 0.05  # the renderer rounds; edges mix shades


def test_a_lap_is_in_one_split_only():
    laps = made_recording(laps=20).laps
    sets = [set(laps[rows].tolist()) for rows in split_laps(laps, seed=1).values()]
    assert [len(s) for s in sets] == [14, 2, 2, 2] and len(set().union(*sets)) == 20


def test_every_row_is_in_a_split():
    splits = split_laps(made_recording(laps=20).laps, seed=1)
    assert sorted(torch.cat(list(splits.values())).tolist()) == list(range(160))


def test_fewer_than_four_laps_are_refused():
    with pytest.raises(ValueError, match="at least 4 laps"):
        split_laps(made_recording(laps=3).laps, 0)


def test_the_task_is_scored_in_the_unit_of_the_actions():
    recording = made_recording(laps=8)
    test = clone_task(recording, 0).test
    batch, (shift, scale) = test.batch(torch.arange(3)), test.unit(torch.arange(3))
    torch.testing.assert_close(shift + scale * batch["y"], recording.actions[test.rows[:3]])


def test_an_input_of_the_task_is_four_grey_frames():
    batch = clone_task(made_recording(laps=8), 0).test.batch(torch.arange(3))
    assert batch["x"].shape == (3, 4, 1, 84, 84)


def test_the_text_of_the_task_names_the_recording():
    assert "8 laps (recording made)" in clone_task(made_recording(laps=8), 0).text


def test_the_task_without_a_recording_names_the_command_that_makes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("NSAC_RECORDING", str(tmp_path))
    with pytest.raises(RecordingError, match="nsac drive record"):
        load_task("carracing")


def test_a_recording_of_another_length_is_refused(monkeypatch):
    monkeypatch.setattr(carracing, "load_recording", made_recording)
    with pytest.raises(RecordingError, match="holds 40 frames.* 'carracing-48102' needs 48102"):
        load_task("carracing-48102")
