import dataclasses

import pytest

from nsac.lab.grid.store import RecordError
from nsac.lab.studies.base import Setting, StudyStore, expand, found, rounded, settings
from support.runs import a_study_record
from support.studies import NUMBERS


def test_settings_are_all_combinations_of_a_sweep():
    points = [(s.sweep, s.point, s.seed) for s in expand("s", NUMBERS)]
    assert points[:4] == [
        ("a", {"a": 1}, 0), ("a", {"a": 3}, 0), ("b", {"b": 2, "c": 5}, 0), ("b", {"b": 4, "c": 5}, 0),
    ]  # fmt: skip


def test_every_combination_has_every_seed():
    assert [setting.seed for setting in expand("s", NUMBERS)] == [0] * 4 + [1] * 4


def test_a_configuration_has_fixed_and_varied_numbers_and_the_seed():
    assert list(expand("s", NUMBERS))[1].config == {"revision": 1, "a": 3, "b": 2, "seed": 0}


def test_the_title_names_what_is_varied():
    assert list(expand("s", NUMBERS))[1].title == "s: a 3, seed 0"


def test_sweeps_that_share_a_point_share_its_record():
    every = [s for s in settings("hyperparameters") if s.seed == 0]
    default = [s for s in every if s.config == every[2].config]
    assert len(default) == 6 == len({s.sweep for s in every}) and len({s.name for s in default}) == 1


@pytest.mark.parametrize("change", [{"extra": 1}, {"seeds": None}], ids=["unknown", "missing"])
def test_a_file_with_an_unknown_or_missing_key_is_refused(change):
    numbers = {k: v for k, v in {**NUMBERS, **change}.items() if v is not None}
    with pytest.raises(ValueError, match=f"In the configuration of study 's': `{min(change)}` is missing or unknown"):
        list(expand("s", numbers))


def test_stale_records_are_left_out():
    setting = settings("lengths")[0]
    old = dataclasses.replace(setting, config={**setting.config, "revision": 0})
    records = [a_study_record(old, {}), a_study_record(setting, {})]
    assert found("lengths", records) == [(setting, records[1])]


def test_a_record_of_the_grid_is_not_a_record_of_a_study(tmp_path):
    setting, store = Setting("s", "a", {"a": 1}, {"a": 1, "seed": 0}), StudyStore(tmp_path)
    store.write(a_study_record(setting, {}))
    path = tmp_path / f"{setting.name}.json"
    path.write_text(path.read_text().replace("nsac-study", "nsac-record"))
    with pytest.raises(RecordError, match="nsac bench study"):
        store.read(setting.name)


def test_numbers_of_figures_have_five_digits():
    assert rounded([[1.234567, 123456.7], 2.0]) == [[1.2346, 123460.0], 2.0]
