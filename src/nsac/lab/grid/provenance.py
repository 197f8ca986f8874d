"""Provenance of a record: code version, library versions, machine and time."""

import contextlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("nsac", "torch", "numpy", "scikit-learn", "scoringrules", "pandas")
"""Libraries that the results depend on."""

GIT_TIMEOUT_SECONDS = 10


def provenance() -> dict[str, Any]:
    """Code, library versions, machine and time, as fields of a record."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {"commit": commit(), "versions": versions(), "machine": machine(), "made": made}


def commit() -> str | None:
    """Commit of the running code, with `+` if its files have changed since; None outside of a repository."""
    return _commit(str(Path(__file__).resolve().parents[2]))


@cache
def _commit(folder: str) -> str | None:
    try:
        if not _git(folder, "ls-files", "."):  # installed into a folder that another repository ignores
            return None
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", ".")
        return _git(folder, "rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: str, *arguments: str) -> str:
    command = ["git", "-C", folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT_SECONDS)
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of Python and of `LIBRARIES`."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def machine() -> dict[str, Any]:
    """Type of machine, without anything that identifies it."""
    about = {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()}
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if models:
            about["processor"] = models[0]
    return about
