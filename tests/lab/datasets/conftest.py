import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("NSAC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NSAC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"
