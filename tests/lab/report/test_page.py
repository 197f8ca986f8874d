import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from nsac.lab.grid.run import run_once
from nsac.lab.grid.sheet import Section
from nsac.lab.report.page import report_markdown, report_page
from support.runs import tiny


@pytest.fixture(scope="module")
def page(records):
    return report_page(records)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1))


def test_the_page_loads_no_other_file(page):
    assert not re.findall(r"(?:src|href)=[\"'](?!#|data:)", page) and "http" not in page and "@import" not in page


def test_the_text_of_a_task_is_escaped(page):
    assert "Rows &lt;b&gt;are&lt;/b&gt; shuffled." in page


def test_the_page_names_the_test_and_its_level(page):
    assert "not significantly different\nfrom it (paired t-test over seeds, level 0.05" in page


def test_further_sections_are_linked(records):
    page = report_page(records, further=[Section("driving", "Driving", "In < 9 laps.", [])])
    assert '<a href="#driving">' in page and '<h2 id="driving">Driving</h2>' in page


def test_figures_have_data_for_every_task_and_protocol(page):
    assert set(data_of(page)) == {f"{task} {kind}" for task in ("boston", "kin8nm") for kind in ("paper", "sound")}


def test_pit_counts_are_summed_over_seeds(page):
    assert data_of(page)["boston paper"]["methods"]["nsac"]["pit"]["raw"] == [9] * 20


def node(script, data=None):
    """Output of a script that has the functions of the page as `page`."""
    if not shutil.which("node"):
        pytest.skip("node is needed to run the script of the page")
    source = Path(str(files("nsac.lab.report") / "assets" / "report.js"))
    prelude = 'const page = require(process.argv[1]), assert = require("assert");\n'
    command = ["node", "-e", prelude + script, source]
    result = subprocess.run(command, input=json.dumps(data), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.mark.parametrize(("keys", "descending", "order"), [
    ("[3, null, 1, NaN, 2]", "false", "[2, 4, 0, 1, 3]"),  # rows without a number are last
    ("[3, null, 1, NaN, 2]", "true", "[0, 4, 2, 1, 3]"),
    ('["b", "a"]', "false", "[1, 0]"),
])  # fmt: skip
def test_rows_are_ordered_by_their_keys(keys, descending, order):
    node(f"assert.deepStrictEqual(page.order({keys}, {descending}), {order});")


def test_reliability_is_the_cumulative_fraction_of_pit_values():
    node("assert.deepStrictEqual(page.reliability([1, 1, 2]), [0, 0.25, 0.5, 1]);")


def test_ticks_are_round_numbers():
    node("assert.deepStrictEqual(page.ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);")


def test_every_method_has_a_reliability_curve(page):
    node("""
    for (const { methods } of Object.values(JSON.parse(require("fs").readFileSync(0)))) {
      const names = Object.keys(methods);
      const svg = page.drawReliability(names.map((m) => ({ method: m, counts: methods[m].pit.raw })), names);
      assert.strictEqual(svg.split("data-method").length - 1, names.length);
      assert(!/NaN|Infinity|undefined/.test(svg), svg.slice(0, 2000));
    }""", data_of(page))  # fmt: skip


@pytest.mark.parametrize("ordering", ["false", "true"])
@pytest.mark.parametrize("residual", ["false", "true"])
def test_every_observed_value_has_a_dot(page, ordering, residual):
    data, real = data_of(page), run_once(tiny())
    data["spiral paper"] = {"methods": {"gmle": {"pit": real.pit, "bands": real.bands}}}
    node("""
    for (const { methods } of Object.values(JSON.parse(require("fs").readFileSync(0))))
      for (const { bands } of Object.values(methods)) for (const panel of bands) {
        const svg = page.drawBands(panel, SORTED, RESIDUAL);
        assert.strictEqual(svg.split("<circle").length - 1, panel.y.length);
        assert(!/NaN|Infinity|undefined/.test(svg), svg.slice(0, 2000));
      }""".replace("SORTED", ordering).replace("RESIDUAL", residual), data)  # fmt: skip


PROBE = """<script>
const table = document.querySelector("table.sortable");
const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value));
table.querySelectorAll("th button")[1].click();
const up = column().join();
table.querySelectorAll("th button")[1].click();
const down = column().join();
const drawn = document.querySelectorAll("figure svg path[data-method]").length;
document.body.dataset.probe = [up === column().sort((a, b) => a - b).join(), down === up.split(",").reverse().join(),
  drawn, document.querySelectorAll("figure.bands circle").length, document.documentElement.dataset.ready].join(" ");
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed (Debian package `chromium`)")
def test_a_browser_sorts_and_draws_without_errors(page, tmp_path):
    (tmp_path / "page.html").write_text(page.replace("</body>", PROBE))
    result = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=5000", "--dump-dom", f"file://{tmp_path}/page.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert 'data-probe="true true 16 240 yes"' in result.stdout, result.stderr[-3000:]
    assert "CONSOLE" not in result.stderr


@pytest.fixture(scope="module")
def markdown(records):
    return report_markdown(records)


def test_the_number_of_the_paper_follows_ours(markdown):
    assert "| nsac | 0.021 ± 0.001 (paper 0.094) |" in markdown


def test_the_best_mean_is_bold(markdown):
    assert "| ridge | **0.011 ± 0.001** |" in markdown


def test_the_markdown_page_names_the_test_and_its_level(markdown):
    assert "not significantly different from it (paired t-test over seeds, level 0.05" in markdown


def test_notes_are_a_list_at_the_end(markdown):
    assert "\n- " in markdown.partition("## Notes")[2]


def test_further_sections_are_on_the_markdown_page(records):
    assert "## Driving" in report_markdown(records, further=[Section("driving", "Driving", "In < 9 laps.", [])])
