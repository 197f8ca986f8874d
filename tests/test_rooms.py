"""Data flows down: a room imports only from rooms above it."""

import ast
from pathlib import Path

import pytest

import nsac

SOURCE = Path(nsac.__file__).parent
ROOMS = [
    "_checks", "_io", "_torch", "core", "circuit", "uncertainty", "layers", "models", "training", "methods",
    "estimators", "explain", "lab", "cli",
]  # fmt: skip
LAB = ["datasets", "tasks", "grid", "shifts", "studies", "driving", "report"]
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" if node.module == "nsac" else node.module for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def place(module):
    """Rank of a room, and within `lab/` of its room there."""
    parts = module.split(".")
    return ROOMS.index(parts[1]), LAB.index(parts[2]) if parts[1] == "lab" and len(parts) > 2 else -1


@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(SOURCE)) for f in FILES])
def test_a_room_imports_only_from_rooms_above_it(path):
    module = ".".join(("nsac", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    if module == "nsac":
        return
    for name in imported(path):
        if name.startswith("nsac."):
            assert place(name) <= place(module), f"{path.name} imports {name}"


def test_every_folder_is_a_room():
    assert {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"} <= set(ROOMS)


@pytest.mark.parametrize(
    "word", ["import pickle", "torch.load(", "torch.save(", "torch.manual_seed(", "np.random.seed("]
)
def test_nothing_pickles_and_nothing_seeds_the_world(word):
    assert not [path.name for path in FILES if word in path.read_text()]
