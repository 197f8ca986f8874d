from nsac.lab.report.summary import group_records, lead, order_methods, origin


def test_records_are_grouped_by_task_and_protocol(records):
    groups = group_records(records)
    assert list(groups) == [(task, kind) for task in ("boston", "kin8nm") for kind in ("paper", "sound")]


def test_records_of_a_group_are_in_the_order_of_the_tables(records):
    first = group_records(reversed(records))["boston", "paper"]
    assert [(r.method, r.seed) for r in first[:4]] == [("nsac", 0), ("nsac", 1), ("nsac", 2), ("gmle", 0)]


def test_methods_of_the_paper_precede_baselines():
    cells = [("ridge", "boston"), ("de", "kin8nm"), ("nsac", "boston")]
    assert order_methods(cells, "paper") == ["nsac", "de", "ridge"]


def test_the_lead_counts_runs_tasks_methods_and_seeds(records):
    assert lead(records).startswith("48 runs: 2 tasks, 4 methods, 3 seeds, 0.0 hours of one core.")


def test_the_origin_has_dates_and_versions(records):
    assert origin(records).startswith("Records of 2024-01-01 to 2024-01-01 on unknown; torch 2; commits unknown ")
