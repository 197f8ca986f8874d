"""Sources and pages use the field's words: none of the retired ones is found in them."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.toml"), *ROOT.glob("docs/**/*.md")]
    + [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
)

RETIRED = {
    # Data
    r"\bwhat came\b": "the observed value, observations, results",
    r"(?<![a-z])hol(e|es|ey)(?![a-z])": "missing values, gaps",
    r"\bas good as missing\b": "treated as missing",
    r"(?<![a-z])stamps?(?![a-z])": "times, observation times",
    r"\bdealt out\b": "split",
    r"\bfrom elsewhere\b": "out-of-distribution",
    r"\bforeign\b": "out-of-distribution",
    r"(?<![a-z])news(?![a-z])": "novelty",
    r"\bunheard[- ]of\b": "not seen in training",
    # Uncertainty
    r"(?<!standard )(?<!absolute )(?<!square )\bdeviations?\b": "standard deviation, std, residual",
    r"doubt": "uncertainty, epistemic standard deviation",
    r"\bways? of being uncertain\b": "uncertainty method",
    r"\bhow to be uncertain\b": "uncertainty method",
    r"\bknows? (what|when|that) (it|they) do(es)? not know\b": "epistemic uncertainty",
    r"\btrustworthy\b": "calibrated",
    r"\bintervals? holds?\b": "PI coverage",
    r"\bas loud as\b": "variance proportional to",
    r"\bforetell": "predict",
    # Layers
    r"\bwho asks\b": "the queries",
    r"\bleave the global generator\b": "do not touch the global random state",
    r"\bin peace\b": "untouched",
    # Baselines and comparisons
    r"\bhow well it is to\b": "the score of the baseline",
    r"\bnaive rows\b": "baselines",
    r"\bmethods that hardly look\b": "baselines",
    r"\bthe climate of the past\b": "climatology",
    r"\bnot told from\b": "not significantly different from",
    # Runs and messages
    r"(?<![a-z])told(?![a-z])": "given, passed, reported, logged",
    r"\bway out\b": "how to fix it",
    r"\bwith commas between\b": "comma-separated list",
    r"\bonly say what\b": "print the planned runs and exit",
    r"\bgoes on\b": "resumes",
    r"\bholds? now\b": "current",
    r"(?<![a-z])retreat(?![a-z])": "restore the last good state",
    r"(?<![a-z])calm(er|est)?(?![a-z])": "a smaller learning rate; less variable",
    r"\bluck(ier|iest)?(?![a-z-])": "may succeed; by chance",
    # Driving
    r"\bless brake\b": "throttle minus brake",
}
"""Regular expression, and what to write instead. Case does not matter, and a line break counts as a space."""

SERIALISED = {
    r'["`]doubt["`]|noise_auroc_doubt': "keys in the records of results/driving",
    r'"holes(\.[^"]*)?"': "tensor names in the folders of saved regressors",
    r'"stamps"': "a key in the folders of saved forecasters",
}
"""Names in files that older versions have written, which must stay readable, and where they are."""

GAP = re.compile(r"""\s*(?:["']\s*\n\s*[rf]?["']|\n\s*\#:?)\s*|\s+""")
"""Space between two words: also the end of a line of a comment, or of a string that continues on the next line."""


def flatten(text: str) -> tuple[str, list[int]]:
    """The text with one space between words, and the offsets in it at which the lines of the file begin."""
    flat, starts, end = "", [0], 0
    for gap in GAP.finditer(text):
        flat += text[end : gap.start()] + " "
        starts += [len(flat)] * gap.group().count("\n")
        end = gap.end()
    return flat + text[end:], starts


def retired_words(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, words found, and what to write instead."""
    flat, starts = flatten(text)
    for name in SERIALISED:
        flat = re.sub(name, lambda found: "." * len(found.group()), flat)
    for pattern, instead in RETIRED.items():
        for found in re.finditer(pattern, flat, re.IGNORECASE):
            yield bisect_right(starts, found.start()), found.group(), instead


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_retired_word_is_in_use(path: Path):
    found = sorted(retired_words(path.read_text(encoding="utf-8")))
    lines = [f"{path.relative_to(ROOT)}:{line}: {words!r}. Write: {instead}." for line, words, instead in found]
    assert not lines, "\n" + "\n".join(lines)


@pytest.mark.parametrize("name", SERIALISED)
def test_every_exception_is_needed(name: str):
    assert any(re.search(name, path.read_text(encoding="utf-8")) for path in FILES if path.suffix == ".py")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\nthe deviation", 2),
        ("two\na standard\ndeviation, a deviation", 3),
        ('three = (\n    "not told "\n    "from it"\n)', 2),
        ("# four\n# with commas\n# between", 2),
    ],
)
def test_a_retired_word_is_found_in_its_line(text: str, line: int):
    assert {found for found, _, _ in retired_words(text)} == {line}


@pytest.mark.parametrize(
    "text",
    ["the standard\ndeviation", "median absolute deviation", "the whole table", 'record["noise_auroc_doubt"]'],
)
def test_good_words_are_not_found(text: str):
    assert not list(retired_words(text))
