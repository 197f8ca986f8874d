import pytest

from nsac.lab.driving import train
from nsac.lab.grid import config as numbers
from nsac.lab.grid.store import Store
from nsac.lab.tasks import carracing
from support.roads import made_recording, single  # noqa: F401


@pytest.fixture
def short(monkeypatch):
    """Two training steps on a recording of 100 frames."""
    monkeypatch.setattr(carracing, "load_recording", lambda: made_recording(laps=5, each=20))
    monkeypatch.setitem(carracing.RECORDED, "carracing", 100)
    config = numbers.run_config("carracing", "sound", "gmle", 0).to_dict()
    config["train"] |= {"epochs": 1, "max_steps": 2, "batch_size": 8}
    monkeypatch.setattr(train, "run_config", lambda *_: numbers.RunConfig(**config))


def test_a_policy_is_saved_with_the_record_of_its_scores(short, tmp_path):
    _, record = train.train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    assert (tmp_path / "policy").is_dir() and Store(tmp_path / "results").read(record.name).metrics["mse"] > 0


def test_a_policy_with_the_same_configuration_is_not_trained_again(short, tmp_path, monkeypatch):
    _, first = train.train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    monkeypatch.setattr(train, "run_fitted", lambda *_: pytest.fail("it was trained again"))
    _, second = train.train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    assert first == second
