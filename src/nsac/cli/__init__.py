"""The command line: parse, call, print."""

from nsac.cli.main import main as main
