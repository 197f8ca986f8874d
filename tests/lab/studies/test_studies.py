import dataclasses
import html
import re

import pytest
import torch

from nsac._torch import single_threaded
from nsac.lab.grid.sheet import Spread, spread
from nsac.lab.grid.store import RecordError
from nsac.lab.grid.table import paper_number, paper_table
from nsac.lab.report.sections import cell_text, sections_html, sections_markdown
from nsac.lab.studies import STUDIES
from nsac.lab.studies import run as running
from nsac.lab.studies.base import Outcome, Setting, StudyStore, expand, found, settings
from nsac.lab.studies.measure import measure
from nsac.lab.studies.run import execute_studies, run_setting
from support.runs import a_study_record

NUMBERS = {
    "revision": 1, "seeds": [0, 1], "fixed": {"a": 1, "b": 2},
    "sweep": [{"name": "a", "a": [1, 3]}, {"name": "b", "b": [2, 4], "c": [5]}],
}  # fmt: skip
TINY = {
    "hyperparameters": {"steps": 2, "draws": 1, "ood_std": 0.0},
    "lengths": {"length": 50, "passes": 2},
    "cost": {"length": 40, "passes": 2, "num_heads": 2, "d_model": 8},
    "freezing": {"steps": 1, "updates": 3},
}
"""Changes that make a setting of each study take a second or so."""


def pretended(setting, **metrics):
    return a_study_record(setting, metrics)


def test_settings_are_all_combinations_of_a_sweep_with_every_seed():
    made = list(expand("s", NUMBERS))
    assert [(s.sweep, s.point, s.seed) for s in made[:4]] == [
        ("a", {"a": 1}, 0), ("a", {"a": 3}, 0), ("b", {"b": 2, "c": 5}, 0), ("b", {"b": 4, "c": 5}, 0),
    ]  # fmt: skip
    assert len(made) == 8 and made[1].config == {"revision": 1, "a": 3, "b": 2, "seed": 0}
    assert made[1].title == "s: a 3, seed 0"


def test_sweeps_that_meet_at_a_point_share_its_record():
    every = [s for s in settings("hyperparameters") if s.seed == 0]
    default = [s for s in every if s.config == every[2].config]
    assert len(default) == 6 == len({s.sweep for s in every}) and len({s.name for s in default}) == 1


def test_a_file_with_an_unknown_or_missing_name_is_refused():
    for change in ({"extra": 1}, {"seeds": None}):
        numbers = {k: v for k, v in {**NUMBERS, **change}.items() if v is not None}
        with pytest.raises(ValueError, match="In the numbers of study 's'"):
            list(expand("s", numbers))


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "regulariser"])  # that one by `bench ablation`
def test_a_study_runs_and_shows_what_came_out(name):
    first = settings(name)[0]
    some = []
    for setting in (first, next(s for s in settings(name) if s.point != first.point or s.seed != first.seed)):
        config = {**setting.config, **TINY[name]}
        with single_threaded():
            some.append((dataclasses.replace(setting, config=config), STUDIES[name].run(config)))
    assert all(isinstance(value, float) for _, outcome in some for value in outcome.metrics.values())
    for sheet in STUDIES[name].sheets(some):
        assert sheet.rows and all(len(row) == len(sheet.head) for row in sheet.rows) and sheet.note
    draw = STUDIES[name].draw
    if draw is not None:
        assert draw(some).axes


def test_a_setting_gives_the_same_numbers_again():
    setting = settings("freezing")[0]
    tiny = dataclasses.replace(setting, config={**setting.config, **TINY["freezing"]})
    one, other = run_setting(tiny), run_setting(tiny)
    assert (one.metrics, one.series, one.name) == (other.metrics, other.series, tiny.name)


def test_the_rival_is_measured_if_it_is_installed():
    pytest.importorskip("torch_nac")
    setting = next(s for s in settings("cost") if s.config["method"] == "torch-nac")
    with single_threaded():
        outcome = STUDIES["cost"].run({**setting.config, **TINY["cost"]})
    assert outcome.metrics["seconds"] > 0 and outcome.metrics["parameters"] > 0


@pytest.mark.slow
def test_a_study_that_asks_for_it_has_a_process_per_setting():
    setting = settings("lengths")[0]
    tiny = dataclasses.replace(setting, config={**setting.config, **TINY["lengths"]})
    assert 0 < run_setting(tiny).metrics["seconds"] < 10


def test_memory_of_a_call_is_what_it_took_at_most():
    taken = measure(lambda: torch.ones(64 * 2**17).sum(), passes=2, enough=60)  # 64 MB
    assert 50 < taken["memory"] < 90 and taken["passes"] == 2
    assert measure(lambda: None, passes=3, enough=-1)["passes"] == 1


def test_what_has_a_record_is_not_run_again_and_what_fails_is_told(tmp_path, monkeypatch):
    ran = []

    def run(setting):
        ran.append(setting.name)
        if setting.point.get("b") == 4:
            raise FloatingPointError("it diverged")
        return pretended(setting, x=1.0)

    monkeypatch.setattr(running, "run_setting", run)
    todo, store = [s for s in expand("s", NUMBERS) if s.seed == 0], StudyStore(tmp_path)
    events = list(execute_studies(todo, store))
    assert [e.kind for e in events] == ["done", "done", "done", "failed"]
    assert events[-1].error == "FloatingPointError: it diverged"
    assert [e.kind for e in execute_studies(todo, store)] == ["failed"] and len(ran) == 5
    assert store.read(todo[0].name).metrics == {"x": 1.0}


def test_records_of_studies_and_of_the_grid_do_not_mix(tmp_path):
    setting = Setting("s", "a", {"a": 1}, {"a": 1, "seed": 0})
    store = StudyStore(tmp_path)
    store.write(pretended(setting))
    path = tmp_path / f"{setting.name}.json"
    path.write_text(path.read_text().replace("nsac-study", "nsac-record"))
    with pytest.raises(RecordError, match="`nsac bench study` makes it again"):
        store.read(setting.name)


def test_cells_are_read_by_people():
    cells = ("a", None, 3, 30985.0, 0.12345, Spread(0.5, 0.01), Spread(None, None), Spread(1.0, None))
    assert [cell_text(c) for c in cells] == ["a", "", "3", "30985", "0.1235", "0.5 ± 0.01", "not finite", "1"]
    assert cell_text(Spread(0.5, 0.01), brief=True) == "0.5"
    assert spread([1.0, 3.0]) == (2.0, pytest.approx(2**0.5)) and spread([1.0, None]) == (None, None)


def test_the_report_has_the_papers_numbers_beside_ours_and_says_what_is_missing():
    some = [
        pretended(s, seconds=0.5, seconds_std=0.1, throughput=2.0, memory=9.0, parameters=7.0)
        for s in settings("cost")[:2]
    ]
    page, told = sections_html([], some), "\n".join(sections_markdown([], some, "figures"))
    assert "5 of 7 settings have no record" in page and "5 of 7 settings have no record" in told
    assert "| nsac | 0.5 ± 0.1 | 1 | 2 | 9 | 7 | 14.14 ± 0.46 | 0.07 | 75.94 | 37278 |" in told
    assert 'data-value="37278"' in page and html.escape("Time, memory and size") in page
    assert not sections_html([], []) and not sections_markdown([], [], "figures")


def test_pictures_are_in_the_page_itself():
    with single_threaded():
        tiny = [STUDIES["freezing"].run({"seed": 0, **TINY["freezing"]})]
    setting = settings("freezing")[0]
    record = dataclasses.replace(pretended(setting, **tiny[0].metrics), series=tiny[0].series)
    page = sections_html([], [record])
    assert re.search(r'<img alt="[^"]+" src="data:image/png;base64,iVBOR', page)
    assert "](figures/freezing.png)" in "\n".join(sections_markdown([], [record], "figures"))


def test_records_of_other_numbers_are_left_out():
    setting = settings("lengths")[0]
    old = dataclasses.replace(setting, config={**setting.config, "revision": 0})
    assert found("lengths", [pretended(old), pretended(setting)]) == [(setting, pretended(setting))]


def test_the_papers_tables_are_whole():
    assert paper_table("table_2")["regulariser"]["without"]["extrapolation_mae"] == [0.0272, 0.0237]
    assert paper_number("spiral", "nsac", "extrapolation_mse") == (0.0017, None)
    assert paper_table("table_3")["step"]["max_error"] == 5.671 and set(paper_table("table_4")) == {
        "gmle", "de", "mcd", "der", "nsac",
    }  # fmt: skip


def test_an_outcome_is_enough_for_tables():
    setting = settings("regulariser")[0]
    metrics = {f"{h}polation_{m}": 0.1 for h in ("inter", "extra") for m in ("mse", "mae", "aleatoric", "epistemic")}
    rows = STUDIES["regulariser"].sheets([(setting, Outcome(metrics))])[0].rows
    assert [row[:2] for row in rows] == [("interpolation", "yes"), ("extrapolation", "yes")]
    assert rows[1][-1] == "0.0304/0.0300"
