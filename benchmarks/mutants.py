"""Mutation testing: changes one operator, constant or result of the sources at a time; some test should then fail.

Mutants are a random sample, in an order that depends on the seed and the text of the line only. Each is written to a
scratch copy of the project. Its mirror test file runs first, then the tests of its room, then those of rooms that use
it. `mutants.txt` lists mutants that change no result, with a reason; they are left out. The log makes a run resumable.
"""

import argparse
import ast
import contextlib
import difflib
import hashlib
import importlib
import itertools
import json
import os
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_suffix(".txt")
USED_BY = {"core": ["uncertainty", "layers"], "uncertainty": ["layers"], "layers": ["models", "methods"]}
"""Rooms whose tests run for a mutant that the tests of its own room do not kill."""
CPU_SECONDS = 120  # per test run; a mutant that loops is killed
PRELOADED = "torch._dynamo sympy pandas scipy.stats sklearn.isotonic sklearn.metrics hypothesis pytest scoringrules"
PICTURES = ("page", "plot", "style")  # sizes and colours have no test
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
OPPOSITES = [("min", "max"), ("amin", "amax"), ("minimum", "maximum"), ("any", "all"), ("ceil", "floor")]
OPPOSITES += [("zeros", "ones"), ("zeros_like", "ones_like"), ("new_zeros", "new_ones"), ("isnan", "isinf")]
RENAMED = dict(OPPOSITES) | {b: a for a, b in OPPOSITES}


def variants(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What can be changed at this node: the code before and after."""

    def changed(**fields: object) -> tuple[ast.AST, ast.AST]:
        return node, type(node)(**{**dict(ast.iter_fields(node)), **fields})

    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            yield changed(ops=[*node.ops[:i], SWAPS[type(op)](), *node.ops[i + 1 :]])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield changed(op=SWAPS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp):
        yield node, node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield changed(value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield from (changed(value=node.value + step) for step in (1, -1))
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Attribute) and node.attr in RENAMED:
        yield changed(attr=RENAMED[node.attr])
    elif isinstance(node, ast.Name) and node.id in ("min", "max", "any", "all"):
        yield changed(id=RENAMED[node.id])
    elif isinstance(node, ast.keyword) and node.arg in ("min", "max"):
        yield changed(arg=RENAMED[node.arg])
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield changed(value=ast.Constant(None))


def mutable(node: ast.AST) -> Iterator[ast.AST]:
    """The node and those below it, without annotations, strings, error messages and warnings."""
    if isinstance(node, ast.Raise | ast.JoinedStr) or (isinstance(node, ast.Call) and "warn" in ast.unparse(node.func)):
        return
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list"):
                yield from mutable(child)


def mutants(path: Path) -> Iterator[tuple[str, str]]:
    """Key and whole source of each mutant of a file."""
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    starts, seen = [0, *itertools.accumulate(map(len, lines))], Counter()
    for old, new in itertools.chain.from_iterable(map(variants, mutable(ast.parse(source)))):
        first, last = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
        after = ast.unparse(ast.fix_missing_locations(new))
        key = f"{path.relative_to(ROOT)} | {lines[old.lineno - 1].decode().strip()} | {ast.unparse(old)} -> {after}"
        if ast.unparse(old) == after:  # 1e30 + 1
            continue
        seen[key] += 1
        after = after if isinstance(old, ast.Return | ast.keyword) else f"({after})"
        yield f"{key} | {seen[key]}", (source[:first] + after.encode() + source[last:]).decode()


def passes(scratch: Path, tests: list[str]) -> bool:
    """Whether the tests pass, in a process that has torch and other packages imported already."""
    child = os.fork()
    if not child:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        os.chdir(scratch)
        os.environ |= {"PYTHONPATH": str(scratch / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins are slow
        sys.path.insert(0, str(scratch / "src"))
        os._exit(importlib.import_module("pytest").main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    return os.waitpid(child, 0)[1] == 0


def stages(path: Path) -> list[list[str]]:
    """Tests of a source file, in the order in which they run."""
    room = path.parent.name
    mirror = Path("tests", room, f"test_{path.stem}.py")
    others = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests" / room).glob("*.py")) if p.name != mirror.name]
    used_by = [f"tests/{other}" for other in USED_BY.get(room, [])]
    return [tests for tests in ([str(mirror)] * (ROOT / mirror).exists(), others, used_by) if tests]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=["core", "uncertainty", "layers", "estimators"])
    parser.add_argument("--count", type=int, default=60, help="size of the sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, default=ROOT / "mutants.json")
    parser.add_argument("--again", action="store_true", help="run logged survivors again")
    args = parser.parse_args()
    equivalent = {line.rsplit(" | ", 1)[0] for line in EQUIVALENT.read_text().splitlines()}
    found = {}
    for path in sorted(p for room in args.rooms for p in (ROOT / "src/nsac" / room).glob("[!_]*.py")):
        for key, source in mutants(path) if path.stem not in PICTURES else ():
            if key.rsplit(" | ", 1)[0] not in equivalent:
                found[key] = path, source
    sample = sorted(found, key=lambda key: hashlib.sha256(f"{args.seed} {key}".encode()).digest())[: args.count]
    log = json.loads(args.log.read_text()) if args.log.exists() else {}
    todo = [key for key in sample if key not in log or (args.again and log[key] == "survived")]
    print(f"{len(found)} mutants, {len(sample)} in the sample, {len(todo)} to run", flush=True)
    for name in PRELOADED.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "project"
        shutil.copytree(ROOT, scratch, ignore=shutil.ignore_patterns(".*", "results", "__pycache__"))
        for room in sorted({found[key][0].parent.name for key in todo}):
            used = [f"tests/{name}" for name in (room, *USED_BY.get(room, []))]
            assert passes(scratch, used), f"The tests of {room} must pass before anything is changed: {' '.join(used)}"
        for key in todo:
            path, source = found[key]
            target, before = scratch / path.relative_to(ROOT), path.read_text()
            target.write_text(source)
            killed = not all(passes(scratch, tests) for tests in stages(path))
            target.write_text(before)
            log[key] = "killed" if killed else "survived"
            args.log.write_text(json.dumps(log, indent=1))
            print(log[key], key, flush=True)
    for key in sample:
        if log[key] == "survived":
            path, source = found[key]
            name = str(path.relative_to(ROOT))
            lines = path.read_text().splitlines(keepends=True), source.splitlines(keepends=True)
            print("".join(difflib.unified_diff(*lines, name, name, n=1)))
    killed = sum(log[key] == "killed" for key in sample)
    print(f"{killed} of {len(sample)} killed: {100 * killed / max(1, len(sample)):.0f} %")


if __name__ == "__main__":
    main()
