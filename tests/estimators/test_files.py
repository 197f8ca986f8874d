import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nsac
from nsac import NSACRegressor
from nsac._io import add_header
from nsac.estimators import ModelError, files, load
from nsac.estimators.files import (
    CONFIG,
    FORMAT,
    MAX_HEADER_BYTES,
    TENSORS,
    VERSION,
    from_archive,
    read_model,
    to_archive,
    write_model,
)
from support.table_problems import mixed, numbers, quick
from support.training_problems import run_module

SOURCE = Path(nsac.__file__).parent
FUZZ = settings(
    max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", params=["ridge", pytest.param("nsac", marks=pytest.mark.slow)])
def saved(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("models") / "model"
    quick(method=request.param).fit(*mixed()).save(folder)
    return folder


@pytest.fixture
def copy(saved, tmp_path):
    """A copy of a model that a test may damage."""
    for name in (CONFIG, TENSORS):
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    return tmp_path


def signed(folder, facts, tensors):
    """Write a model with a valid checksum, as a forger could."""
    for name in (CONFIG, TENSORS):
        (folder / name).unlink(missing_ok=True)
    write_model(folder, facts, tensors)


def test_tensors_and_facts_come_back(tmp_path):
    tensors = {"a": torch.randn(2, 3), "b": torch.tensor([1, 2]), "shared": torch.zeros(4)[::2]}
    write_model(tmp_path / "m", {"class": "NSACRegressor", "text": "ü"}, tensors)
    facts, again = read_model(tmp_path / "m")
    assert facts == {"class": "NSACRegressor", "text": "ü"}
    assert all(torch.equal(tensors[name], again[name]) for name in tensors) and again.keys() == tensors.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_model_replaces_a_model_and_nothing_else(tmp_path):
    write_model(tmp_path / "m", {"class": "a"}, {})
    write_model(tmp_path / "m", {"class": "b"}, {})
    assert read_model(tmp_path / "m")[0] == {"class": "b"}
    (tmp_path / "m" / "notes.txt").write_text("mine")
    for other in (tmp_path / "m", tmp_path / "m" / "notes.txt"):
        with pytest.raises(ModelError, match="must be absent, empty or a model folder"):
            write_model(other, {"class": "c"}, {})
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    write_model(tmp_path / "m", {"class": "a"}, {})

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_model(tmp_path / "m", {"class": "b"}, {})
    assert read_model(tmp_path / "m")[0] == {"class": "a"} and len(list(tmp_path.iterdir())) == 1


def test_a_model_whose_replacement_was_killed_is_loaded(saved, tmp_path):
    shutil.copytree(saved, tmp_path / ".m.0123abcd.old")  # between two renames, where folders cannot be exchanged
    (tmp_path / ".m.4567cdef.new").mkdir()
    assert load(tmp_path / "m").method == load(saved).method


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    for name in "ab":
        write_model(tmp_path / name, {"class": name}, {name: torch.zeros(3)})
    opened = []

    def replace_between(folder, name, max_bytes):
        opened.append(name)
        if len(opened) == 2:  # the config of the old model is open
            write_model(tmp_path / "a", {"class": "b"}, {"b": torch.zeros(3)})
        return open_file(folder, name, max_bytes)

    open_file = files._open
    monkeypatch.setattr(files, "_open", replace_between)
    facts, tensors = read_model(tmp_path / "a")
    assert (facts, list(tensors)) == ({"class": "b"}, ["b"]) and len(opened) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
@pytest.mark.parametrize(
    ("kills", "mode"),
    [
        (10, "exchange"),
        pytest.param(200, "exchange", marks=pytest.mark.slow),
        pytest.param(200, "rename", marks=pytest.mark.slow),  # as on systems that cannot exchange folders
    ],
)
def test_killed_writers_leave_a_whole_model_to_the_readers_beside_them(tmp_path, seed, kills, mode):
    done = run_module("support.kill_and_load", tmp_path, kills, seed, mode)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_estimator_that_is_not_fitted_writes_nothing(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", [CONFIG, TENSORS])
@given(data=st.data())
@FUZZ
def test_changed_bytes_are_a_named_error(saved, tmp_path, name, data):
    content = bytearray((saved / name).read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "put", "any"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if kind == "flip":
        content[at] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del content[at:]
    elif kind == "put":
        content[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    else:
        content = data.draw(st.binary(max_size=200))
    other = TENSORS if name == CONFIG else CONFIG
    (tmp_path / other).write_bytes((saved / other).read_bytes())
    (tmp_path / name).write_bytes(content)
    try:
        load(tmp_path)
    except ModelError as err:
        assert "fit it anew" in str(err)
    else:  # white space between the values of a JSON file has no meaning
        assert json.loads(content) == json.loads((saved / name).read_bytes())


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5), st.just("../../etc/passwd"), st.lists(st.integers(-3, 3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.sampled_from([10**5, 10**9, -1, 0, 0.5]),
)  # fmt: skip


def paths(value, path=()):
    """Every place in nested dicts and lists."""
    yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(each, (*path, key))


@given(data=st.data())
@FUZZ
def test_a_forged_config_is_a_named_error_or_a_model_that_predicts(saved, tmp_path, data):
    facts, tensors = read_model(saved)
    *parents, key = data.draw(st.sampled_from([path for path in paths(facts) if path]))
    place = facts
    for parent in parents:
        place = place[parent]
    kind = data.draw(st.sampled_from(["value", "without", "more"]))
    if kind == "without":
        del place[key]
    elif kind == "more" and isinstance(place, dict):
        place["surprise"] = data.draw(VALUES)
    else:
        place[key] = data.draw(VALUES)
    signed(tmp_path, facts, tensors)
    try:
        model = load(tmp_path)
    except ModelError:
        return
    assert kind != "more" or not isinstance(place, dict) or parents[1:] in (["data"], ["training"], ["chosen"])
    frame = mixed()[0]
    model.predict(
        frame.set_axis(model.feature_names_in_, axis=1) if hasattr(model, "feature_names_in_") else frame.values
    )


@given(data=st.data())
@FUZZ
def test_forged_tensors_are_a_named_error(saved, tmp_path, data):
    facts, tensors = read_model(saved)
    name = data.draw(st.sampled_from(sorted(tensors)))
    kind = data.draw(st.sampled_from(["without", "renamed", "shape", "type", "nan", "large"]))
    old = tensors.pop(name)
    if kind != "without":
        changed = {
            "renamed": old, "shape": old[None],
            "type": old.to(torch.int8 if old.is_floating_point() else torch.float32),
            "nan": old * torch.nan if old.is_floating_point() else old,
            "large": (old.float() * 1e9 + 1e9).to(old.dtype),
        }[kind]  # fmt: skip
        tensors[f"../{name}" if kind == "renamed" else name] = changed
    signed(tmp_path, facts, tensors)
    try:
        load(tmp_path)
    except ModelError as err:
        assert str(tmp_path) in str(err)
    else:
        assert kind in ("nan", "large", "type")  # plausible numbers


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "[" * 10_000, '{"format": NaN}', '{"format": "nsac-model"}', "\xff"]
)
def test_a_config_that_is_not_one_is_a_named_error(copy, text):
    (copy / CONFIG).write_text(text, encoding="latin-1")
    with pytest.raises(ModelError):
        load(copy)


def test_files_that_are_swapped_or_of_another_model_are_refused(copy, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "model"
    quick(method="mean", random_state=1).fit(*mixed()).save(other)
    (copy / TENSORS).write_bytes((other / TENSORS).read_bytes())
    with pytest.raises(ModelError, match="checksum"):
        load(copy)
    (copy / TENSORS).write_bytes((copy / CONFIG).read_bytes())
    with pytest.raises(ModelError):
        load(copy)


def test_a_huge_header_is_not_read(copy):
    facts, _ = read_model(copy)
    weights = (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{}"
    (copy / CONFIG).write_text(json.dumps(add_header(FORMAT, VERSION, facts, weights)))
    (copy / TENSORS).write_bytes(weights)
    with pytest.raises(ModelError, match="header"):
        load(copy)


def test_a_file_that_claims_to_be_too_large_is_not_read(copy, monkeypatch):
    monkeypatch.setattr("nsac.estimators.files.MAX_TENSORS_BYTES", 100)
    with pytest.raises(ModelError, match="larger than 100 bytes"):
        load(copy)


def test_what_is_not_a_file_is_not_waited_for(copy):
    (copy / TENSORS).unlink()
    with pytest.raises(ModelError, match=f"has no file {TENSORS}"):
        load(copy)
    os.mkfifo(copy / TENSORS)
    with pytest.raises(ModelError, match=f"has no file {TENSORS}"):
        load(copy)


def test_an_absent_folder_is_a_named_error(tmp_path):
    with pytest.raises(ModelError, match="There is no such folder"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["os.system", "../NSACRegressor", None, ["NSACRegressor"], "AbstractEstimator"])
def test_only_known_classes_are_made(copy, name):
    facts, tensors = read_model(copy)
    signed(copy, facts | {"class": name}, tensors)
    with pytest.raises(ModelError, match="this library knows NSACRegressor"):
        load(copy)


def test_another_version_is_refused_with_a_remedy(copy):
    facts = json.loads((copy / CONFIG).read_text())
    (copy / CONFIG).write_text(json.dumps(facts | {"version": 99}))
    with pytest.raises(ModelError, match="version 99.*Load it with the library that wrote it"):
        load(copy)


PICKLES = re.compile(
    r"\b(pickle|dill|joblib\.(load|dump)|read_pickle|to_pickle|torch\.(load|save)|allow_pickle\s*=\s*True|marshal|shelve"
    r"|eval\(|exec\()"
)


def test_no_line_of_the_package_can_unpickle():
    lines = [
        f"{path.name}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if PICKLES.search(line.split("#")[0]) and not re.search(r"\.eval\(\)|_eval\(|never|no pickle", line)
    ]
    assert not lines


def test_every_array_file_is_read_without_pickles():
    for path in SOURCE.rglob("*.py"):
        for call in re.findall(r"np\.load\([^\n]*", path.read_text()):
            assert "allow_pickle=False" in call, f"{path.name}: {call}"


def test_numbers_and_names_survive_the_folder(tmp_path):
    frame, y = mixed()
    regressor = quick().fit(frame, y)
    regressor.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.get_params() == regressor.get_params()
    assert list(again.feature_names_in_) == list(frame.columns) and again.n_features_in_ == 5
    assert np.array_equal(again.predict(frame), regressor.predict(frame))
    x, y = numbers(outputs=2)
    assert quick().fit(x, y).predict(x).shape == (60, 2)


@pytest.fixture(scope="module")
def archive():
    config, tensors = to_archive(quick(method="ridge", random_state=np.random.RandomState(0)).fit(*numbers()))
    assert config.pop("class") == "NSACRegressor"
    return config, tensors


def test_a_random_generator_is_not_saved(archive):
    assert archive[0]["parameters"]["random_state"] is None


def test_the_deprecated_argument_is_not_saved(archive):
    assert "folds" not in archive[0]["parameters"] and archive[0]["parameters"]["members"] == 2


def test_parameters_of_the_previous_version_are_read(archive):
    config, tensors = archive
    parameters = {name: value for name, value in config["parameters"].items() if name not in ("members", "num_samples")}
    regressor = from_archive(NSACRegressor, config | {"parameters": parameters | {"folds": 2}}, tensors)
    assert (regressor.members, regressor.num_samples, regressor.folds) == (2, 20, "deprecated")


def test_weights_of_single_precision_take_four_bytes(archive):
    weights = archive[1]["member.0.weight"]
    assert weights.element_size() == (4 if (weights.float().double() == weights).all() else 8)


@pytest.mark.parametrize(
    "change",
    [
        {"own": None},
        {"seeds": []},
        {"seeds": [1, 2, 3]},
        {"surprise": 1},
        {"parameters": {"method": "magic"}},
        {"parameters": {"num_samples": 10**9}},
    ],
)
def test_a_config_that_does_not_fit_is_refused(archive, change):
    config, tensors = archive
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_archive(NSACRegressor, config | change, tensors)
