import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from nsac.lab.grid.config import run_config
from nsac.lab.grid.run import run_once
from nsac.lab.grid.sheet import Image, Section, Sheet, Spread
from nsac.lab.grid.table import table_rows
from nsac.lab.report.report import notes_of, report_markdown, report_page
from support.runs import a_record, tiny

N = 60


def pretended(task, protocol, method, seed, crps):
    config = run_config(task, protocol, method, seed)
    at = list(range(N))
    panel = {"name": "rows", "at": at, "y": [i % 7 for i in at], "mean": [3.0] * N, "std": [1.0] * N}
    panel |= {"epistemic": [0.2] * N, "half_90": [2.5] * N}
    metrics = {"mse": crps**2, "crps": crps, "nll": None if method == "der" else crps, "coverage_90": 0.85}
    return a_record(
        seed, task=task, protocol=protocol, method=method, key=config.key, config=config.to_dict(), bands=[panel],
        text="Rows <b>are</b> shuffled.", pit={"raw": [3] * 20, "calibrated": [1] * 10 + [2] * 10},
        metrics={**metrics, "coverage_90_calibrated": 0.8}, versions={"torch": "2"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def records():
    level = {"nsac": 0.02, "gmle": 0.03, "der": 0.05, "ridge": 0.01}
    return [
        pretended(task, protocol, method, seed, crps + 0.001 * seed * (1 + (method == "gmle")))
        for task in ("boston", "kin8nm")
        for protocol in ("paper", "sound")
        for method, crps in level.items()
        for seed in range(3)
    ]


@pytest.fixture(scope="module")
def page(records):
    return report_page(records)


def test_the_page_asks_for_nothing_else(page):
    assert not re.findall(r"(?:src|href)=[\"'](?!#|data:)", page) and "http" not in page and "@import" not in page


def test_parts_made_elsewhere_have_their_place(records):
    sheet = Sheet("Laps", ["method", "laps"], [["nsac", Spread(0.75, 0.25)], ["gmle", None]], "Of ten.")
    part = Section("driving", "On the road", "In < 9 laps.", [sheet], [Image("loop", "A lap.", b"not a picture")])
    page, told = report_page(records, parts=[part]), report_markdown(records, parts=[part])
    assert '<a href="#driving">' in page and '<h2 id="driving">On the road</h2>' in page and "In &lt; 9 laps." in page
    assert '<tr class="ours"><td>nsac</td><td data-value="0.75">0.75 ± 0.25</td></tr>' in page and 'id="loop"' in page
    assert "## On the road" in told and "| nsac | 0.75 ± 0.25 |" in told and "![A lap.](figures/loop.png)" in told


def test_text_of_tasks_is_text(page):
    assert "Rows &lt;b&gt;are&lt;/b&gt; shuffled." in page


def test_every_mean_of_the_records_is_on_the_page(page, records):
    for row in table_rows(records):
        if row["metric"] in ("mse", "crps") and row["mean"] is not None:
            assert f'data-value="{row["mean"]}"' in page
    assert page.count("not finite") >= 4 and 'data-value="0.0301"' in page  # the paper's


def test_the_data_of_pictures_can_be_read_back(page):
    told = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    data = json.loads(told.group(1))
    assert set(data) == {f"{task} {kind}" for task in ("boston", "kin8nm") for kind in ("paper", "sound")}
    assert data["boston paper"]["methods"]["nsac"]["pit"]["raw"] == [9] * 20  # over three seeds


def test_notes_say_what_is_not_flattering(records):
    notes = "\n".join(notes_of(records))
    assert "another method has a lower mean than nsac on: boston (ridge: 0.011, nsac: 0.021)" in notes
    assert "more than 2 points off on: boston, paper (0.800)" in notes
    assert "below the MSE the paper prints for NSAC, 0.0301: ridge" in notes
    assert "runs of this grid have no record yet" in notes and "not finite" in notes


def test_the_same_tables_are_a_page_of_the_documentation(records):
    told = report_markdown(records)
    assert "| nsac | 0.021 ± 0.001 (paper 0.094) |" in told and "| ridge | **0.011 ± 0.001** |" in told


NODE = """
const page = require(process.argv[1]);
const assert = require("assert");
assert.deepStrictEqual(page.order([3, null, 1, NaN, 2], false), [2, 4, 0, 1, 3]);
assert.deepStrictEqual(page.order([3, null, 1, NaN, 2], true), [0, 4, 2, 1, 3]);
assert.deepStrictEqual(page.order(["b", "a"], false), [1, 0]);
assert.deepStrictEqual(page.reliability([1, 1, 2]), [0, 0.25, 0.5, 1]);
assert.deepStrictEqual(page.ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
const data = JSON.parse(require("fs").readFileSync(0));
for (const { methods } of Object.values(data)) {
  const names = Object.keys(methods);
  const curves = page.drawReliability(names.map((m) => ({ method: m, counts: methods[m].pit.raw })), names);
  assert.strictEqual(curves.split("data-method").length - 1, names.length);
  for (const name of names) for (const panel of methods[name].bands) for (const way of [0, 1, 2, 3]) {
    const svg = page.drawBands(panel, way % 2 === 1, way > 1);
    assert.strictEqual(svg.split("<circle").length - 1, panel.y.length);
    assert(!/NaN|Infinity|undefined/.test(curves + svg), svg.slice(0, 2000));
  }
}
console.log("drawn");
"""


@pytest.mark.skipif(not shutil.which("node"), reason="node is needed to run the script of the page")
def test_pictures_are_drawn_and_rows_are_ordered_without_a_browser(page, tmp_path):
    script = Path(str(files("nsac.lab.report") / "page" / "report.js"))
    real = run_once(tiny())
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    data["spiral paper"] = {"methods": {"gmle": {"pit": real.pit, "bands": real.bands}}}
    told = subprocess.run(["node", "-e", NODE, script], input=json.dumps(data), capture_output=True, text=True)
    assert told.stdout == "drawn\n", told.stderr[-2000:]


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
def test_a_real_browser_shows_it_sorts_and_draws_without_errors(page, tmp_path):
    (tmp_path / "page.html").write_text(page.replace("</body>", PROBE))
    told = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=5000", "--dump-dom", f"file://{tmp_path}/page.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert 'data-probe="true true 16 240 yes"' in told.stdout, told.stderr[-3000:]
    assert "CONSOLE" not in told.stderr
