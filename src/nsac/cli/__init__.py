"""The command line: parses arguments, calls the library, prints results."""

from nsac.cli.main import app as main

__all__ = ["main"]
