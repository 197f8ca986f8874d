"""The walk through `nsac predict` in CONTRIBUTING.md has the files that the command enters."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.table_problems import mixed, quick

ROOT = Path(__file__).parents[1]
TRACE = """
import sys
from pathlib import Path

import nsac.cli.tables  # imported before the trace begins: calls at import do not count
import nsac.estimators.regressor
from nsac.cli import main

source, entered = str(Path(nsac.__file__).parent) + "/", set()


def trace(frame, event, argument):
    name = frame.f_code.co_filename
    if name.startswith(source) and frame.f_code.co_name != "<module>":
        entered.add(name.removeprefix(source))


sys.setprofile(trace)
try:
    main()
finally:
    sys.setprofile(None)
    print(*sorted(entered), file=sys.stderr)
"""
"""Prints the files of the library whose functions are called."""


@pytest.mark.slow  # a process that imports torch and pandas
def test_the_walk_through_predict_has_the_files_it_enters(tmp_path: Path):
    model, table = tmp_path / "model", tmp_path / "table.csv"
    quick().fit(*mixed()).save(model)
    mixed(12, seed=5)[0].to_csv(table, index=False)
    command = [sys.executable, "-c", TRACE, "predict", str(model), str(table)]
    traced = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()[-1]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = text.split("### `nsac predict")[1].split("\n### ")[0]
    assert sorted(re.findall(r"^\| \d+ \| `([\w/.]+)` \|", walk, re.MULTILINE)) == traced.split()
