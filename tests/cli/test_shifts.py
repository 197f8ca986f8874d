import json

import pytest

from nsac.lab.shifts import growth
from nsac.lab.shifts import run as suite
from support.cli import call


def record(scene, method, seed):
    numbers = {name: 0.75 for name in ("auroc", "aupr", "fpr95", "auroc_total", "error_correlation", "ause", "nll")}
    inside = {"rmse_inside": 1.0, "crps_inside": 0.5, "variance_inside": 1.0}
    about = {"scene": scene, "kind": "season", "shift": "winter", "method": method, "seed": seed}
    return {**about, **numbers, **inside, "coverage_90": 0.8}


def write(folder, *methods):
    for method in methods:
        path = folder / f"jena_{method.replace(', ', '-')}_0.json"
        path.write_text(json.dumps([record("jena", method, 0)]))


@pytest.fixture
def records(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    write(folder, "nsac", "nsac, likelihood", "noise")
    return folder


@pytest.fixture
def pretend(monkeypatch):
    """Runs of the suite that take no time; the fixture is the list of them."""
    done = []

    def run_kept(folder, scene, method, seed):
        done.append((scene, method, seed))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{len(done)}.json").write_text(json.dumps([record(scene, method, seed)]))

    monkeypatch.setattr(suite, "run_kept", run_kept)
    return done


def test_without_seeds_nothing_is_run(records, pretend):
    call("bench", "shifts", "--records", records)
    assert not pretend


@pytest.mark.parametrize(
    "title", ["AUROC of the epistemic standard deviation", "reference detectors", "In-distribution"]
)
def test_the_tables_of_the_records_are_printed(records, title):
    assert title in call("bench", "shifts", "--records", records).stdout


def test_the_tables_are_read_by_programs(records):
    found = json.loads(call("bench", "shifts", "--records", records, "--json").stdout)
    assert {row["name"]: row["season"] for row in found["detection"]} == {
        "nsac": 0.75, "nsac, likelihood": 0.75, "noise": 0.75,
    }  # fmt: skip


def test_a_single_number_is_one_seed(tmp_path, pretend):
    call("bench", "shifts", "--seeds", 3, "--method", "nsac", "--records", tmp_path)
    assert {seed for _, _, seed in pretend} == {3}


def test_methods_are_chosen_by_a_repeated_option(tmp_path, pretend):
    call("bench", "shifts", "--seeds", 0, "--method", "de", "--method", "nsac, paper", "--records", tmp_path)
    assert {method for _, method, _ in pretend} == {"de", "nsac, paper"}


def test_runs_with_a_record_are_skipped(records, pretend):
    call("bench", "shifts", "--seeds", 0, "--method", "nsac", "--records", records)
    assert pretend and ("jena", "nsac", 0) not in pretend


def test_a_dry_run_prints_the_planned_runs(records, pretend):
    arguments = ("--seeds", "0-1", "--method", "nsac", "--records", records, "--dry-run", "--json")
    plan = json.loads(call("bench", "shifts", *arguments).stdout)
    assert plan["done"] == 1 and {"scene": "jena", "method": "nsac", "seed": 1} in plan["todo"] and not pretend


def test_the_page_is_written(records, tmp_path):
    call("bench", "shifts", "--records", records, "--out", tmp_path / "docs" / "shifts.md")
    assert (tmp_path / "docs" / "shifts.md").read_text().startswith("# ")


def test_the_earlier_name_of_the_page_is_deprecated(records, tmp_path):
    result = call("bench", "shifts", "--records", records, "--markdown", tmp_path / "shifts.md")
    assert (tmp_path / "shifts.md").exists() and "`--markdown FILE` is deprecated" in result.stderr


def test_out_as_the_folder_of_the_records_is_deprecated(records):
    result = call("bench", "shifts", "--out", records)
    assert "AUROC" in result.stdout and "Use `--records FOLDER`" in result.stderr


@pytest.mark.parametrize(("arguments", "message"), [
    ((), "has no records. Run them with `--seeds 0`"),
    (("--method", "none"), "There is no method 'none'. Available: nsac"),
    (("--seeds", "4-0"), "Write the smaller number first"),
])  # fmt: skip
def test_an_error_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    lines = call("bench", "shifts", *arguments, "--records", tmp_path, code=2).output.splitlines()
    assert len(lines) == 1 and message in lines[0]


@pytest.fixture
def grown(monkeypatch):
    """Runs of `growth` that take no time; the epistemic standard deviation is the seed."""
    monkeypatch.setattr(
        growth, "run_growth", lambda task, share, seed: growth.GrowthRun(task, share, seed, seed, 0.3, 0.4)
    )


def test_growth_averages_over_the_named_seeds(tmp_path, grown):
    arguments = ("--seeds", "2,4", "--out", tmp_path / "growth.png", "--json")
    rows = json.loads(call("bench", "growth", *arguments).stdout)["rows"]
    assert {row["epistemic"] for row in rows} == {3.0}


def test_growth_draws_its_figure(tmp_path, grown):
    call("bench", "growth", "--seeds", "1", "--out", tmp_path / "folder" / "growth.png")
    assert (tmp_path / "folder" / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_growth_prints_a_row_per_task_and_fraction(tmp_path, grown):
    output = call("bench", "growth", "--seeds", "1", "--out", tmp_path / "growth.png").stdout
    assert output.count("kin8nm") == len(growth.SHARES)


def test_a_dry_run_of_growth_prints_the_planned_runs(tmp_path):
    plan = json.loads(call("bench", "growth", "--seeds", "0-1", "--dry-run", "--json").stdout)
    assert plan["runs"] == len(plan["todo"]) == 2 * len(growth.TASKS) * len(growth.SHARES)
