import re

import pytest

import nsac
from support.cli import call

COMMANDS = [
    "", "example", "demo", "bench", "bench list", "bench run", "bench table", "bench report", "bench study",
    "bench figure", "bench shifts", "bench growth", "data", "data list", "data fetch", "data info",
]  # fmt: skip
DEPRECATED = ["--methods", "--metrics", "--markdown", "--page", "frozen", "ablation"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command):
    assert "Usage" in call(*command.split(), "--help").output


@pytest.mark.parametrize("command", COMMANDS)
def test_deprecated_spellings_are_not_in_the_help(command):
    words = re.findall(r"[\w-]+", call(*command.split(), "--help").output)
    assert not set(words) & set(DEPRECATED)


def test_the_version_is_printed():
    assert call("--version").output == f"nsac {nsac.__version__}\n"


def test_the_help_lists_the_commands_of_a_model_and_the_groups():
    output = call("--help").output
    assert all(f" {name} " in output for name in ("fit", "predict", "evaluate", "export", "demo", "bench", "data"))


def test_an_unknown_command_exits_with_code_2():
    call("nothing", code=2)
