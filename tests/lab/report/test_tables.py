import re

import pytest

from nsac.lab.grid.table import table_rows
from nsac.lab.report.summary import group_records
from nsac.lab.report.tables import overview_table, paper_comparison, task_table


@pytest.fixture(scope="module")
def rows(records):
    return table_rows(records)


@pytest.fixture(scope="module")
def overview(records, rows):
    return overview_table(group_records(records), rows)


def test_every_mean_of_the_records_is_in_the_overview(overview, rows):
    means = [row["mean"] for row in rows if row["metric"] in ("mse", "crps") and row["mean"] is not None]
    assert all(f'data-value="{mean}"' in overview for mean in means)


def test_a_mean_that_is_not_finite_is_named(overview):
    assert overview.count("not finite") == 4


def test_methods_of_the_paper_precede_baselines(overview):
    methods = re.findall(r'<tr class="\w*"><td>(\w+)</td>', overview)
    assert methods[:4] == ["nsac", "gmle", "der", "ridge"]


def test_the_best_mean_is_marked(overview):
    assert re.search(r'<td>ridge</td><td class="best" data-value="0.011\d*" title="best mean">0.011 ', overview)


def test_baselines_and_nsac_have_their_own_style(overview):
    assert '<tr class="ours"><td>nsac</td>' in overview and '<tr class="baseline"><td>ridge</td>' in overview


def test_the_numbers_of_the_paper_are_beside_ours(records, rows):
    own = [row for row in rows if (row["task"], row["protocol"]) == ("boston", "paper")]
    assert '<td class="paper" data-value="0.0301">' in task_table(group_records(records)["boston", "paper"], own)


def test_the_comparison_with_the_paper_states_which_is_lower(rows):
    table = paper_comparison(rows)
    assert "<td>lower</td>" in table and 'title="lower than the paper\'s"' in table


def test_without_runs_of_nsac_there_is_no_comparison(rows):
    others = [row for row in rows if row["method"] != "nsac"]
    assert paper_comparison(others) == "<p>There are no runs of nsac under the paper's protocol.</p>"
