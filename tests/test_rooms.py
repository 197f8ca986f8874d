"""Data flows down: a room imports only from rooms above it, by statement or by name."""

import ast
import re
from pathlib import Path

import pytest

import nsac

SOURCE = Path(nsac.__file__).parent
ROOMS = [
    "_checks", "_io", "_torch", "core", "circuit", "uncertainty", "layers", "models", "training", "methods",
    "estimators", "explain", "lab", "cli",
]  # fmt: skip
LAB = ["datasets", "tasks", "grid", "shifts", "studies", "driving", "report"]
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
IDS = [str(path.relative_to(SOURCE)) for path in FILES]
IMPORTS_BY_NAME = {"estimators/files.py"}
"""Modules that import by name, from a closed registry; besides the lazy public names of `nsac/__init__.py`."""

MODULE_NAME = re.compile(rf"\bnsac\.(?:{'|'.join(ROOMS)})\b(?:\.\w+)*")


def module_of(path: Path) -> str:
    return ".".join(("nsac", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" if node.module == "nsac" else node.module for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def strings(path: Path):
    """String literals, the constant parts of f-strings and the docstrings."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def called(path: Path):
    """Names of called functions, without what stands before the last dot."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", ""))


def place(module: str) -> tuple[int, int]:
    """Rank of a room, and within `lab/` of its room there."""
    parts = module.split(".")
    inner = LAB.index(parts[2]) if parts[1] == "lab" and len(parts) > 2 and parts[2] in LAB else -1
    return ROOMS.index(parts[1]), inner


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_room_imports_only_from_rooms_above_it(path):
    for name in imported(path):
        if name.startswith("nsac."):
            assert place(name) <= place(module_of(path)), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_no_string_names_a_module_of_a_room_below(path):
    for text in strings(path):
        for name in MODULE_NAME.findall(text):
            assert place(name) <= place(module_of(path)), f"{path.name} names {name}"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_nothing_is_imported_by_name(path):
    if str(path.relative_to(SOURCE)) not in IMPORTS_BY_NAME:
        assert not {"import_module", "__import__"} & set(called(path))


def test_every_folder_is_a_room():
    assert {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"} <= set(ROOMS)


def test_every_folder_of_the_lab_is_a_room():
    assert {p.name for p in (SOURCE / "lab").iterdir() if p.is_dir() and p.name != "__pycache__"} == set(LAB)


@pytest.mark.parametrize(
    "word", ["import pickle", "torch.load(", "torch.save(", "torch.manual_seed(", "np.random.seed("]
)
def test_nothing_pickles_and_nothing_seeds_the_global_generators(word):
    assert not [path.name for path in FILES if word in path.read_text()]
