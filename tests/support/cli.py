"""Calls of the command line, shared by tests."""

from typer.testing import CliRunner

from nsac.cli.main import app


def call(*arguments, code=0):
    """The result of `nsac ARGUMENTS`, which must end with this exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result
