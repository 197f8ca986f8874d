"""Mutation testing: one operator, constant or result of the sources is changed at a time; some test should then fail.

The mutants are a random sample. Each is written to a scratch copy of the project; its mirror test file runs first, then
the tests of its room, then those of rooms that use it. `mutants.txt` lists mutants that change no result, with the
reason; they are left out. A log makes the run resumable.
"""

import argparse
import ast
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
USED_BY = {"core": ["uncertainty", "layers"], "uncertainty": ["layers"], "layers": ["models", "methods"]}
PICTURES = ("page", "plot", "style")  # sizes and colours have no test
CPU_SECONDS = 120  # per test run; a mutant that exceeds it is killed
PRELOADED = "torch._dynamo sympy pandas scipy.stats sklearn.isotonic sklearn.metrics hypothesis pytest scoringrules"
PAIRS = """Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, And Or, Add Sub, Mult Div, BitOr BitAnd, min max, amin amax,
minimum maximum, any all, ceil floor, zeros ones, zeros_like ones_like, isnan isinf"""
OTHER = {one: two for pair in PAIRS.split(",") for one, two in (pair.split(), reversed(pair.split()))}
OTHER |= {"FloorDiv": "Mult", "Mod": "Mult", "Pow": "Mult"}


def variants(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What can be changed at this node: the code before and after."""

    def changed(**fields: object) -> tuple[ast.AST, ast.AST]:
        return node, type(node)(**{**dict(ast.iter_fields(node)), **fields})

    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            yield changed(ops=[*node.ops[:i], getattr(ast, OTHER[type(operator).__name__])(), *node.ops[i + 1 :]])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op).__name__ in OTHER:
        yield changed(op=getattr(ast, OTHER[type(node.op).__name__])())
    elif isinstance(node, ast.UnaryOp):
        yield node, node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield changed(value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value != node.value + 1:
        yield from (changed(value=node.value + step) for step in (1, -1))
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield changed(value=ast.Constant(None))
    for field in ("attr", "id", "arg"):  # of attributes, names and keywords
        if getattr(node, field, None) in OTHER:
            yield changed(**{field: OTHER[getattr(node, field)]})


def mutable(node: ast.AST) -> Iterator[ast.AST]:
    """The node and those below it, without annotations, strings, error messages, warnings and checks of lengths."""
    call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Raise | ast.JoinedStr) or "warn" in call or getattr(node, "arg", "") == "strict":
        return
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list"):
                yield from mutable(child)


def mutants(path: Path) -> Iterator[tuple[str, str]]:
    """Key and whole source of each mutant of a file."""
    source = path.read_bytes()
    lines, seen = source.splitlines(keepends=True), Counter()
    starts = [0, *itertools.accumulate(map(len, lines))]
    for old, new in itertools.chain.from_iterable(map(variants, mutable(ast.parse(source)))):
        before, after = ast.unparse(old), ast.unparse(new)
        first, last = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
        key = f"{path.relative_to(ROOT)} | {lines[old.lineno - 1].decode().strip()} | {before} -> {after}"
        seen[key] += 1
        code = after if isinstance(old, ast.Return | ast.keyword | ast.arg) else f"({after})"
        yield f"{key} | {seen[key]}", (source[:first] + code.encode() + source[last:]).decode()


def passes(scratch: Path, tests: list[str]) -> bool:
    """Whether the tests pass, in a process that has imported torch and other packages already."""
    if child := os.fork():
        return os.waitpid(child, 0)[1] == 0
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    os.chdir(scratch)
    os.environ |= {"PYTHONPATH": str(scratch / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins are slow
    sys.path.insert(0, str(scratch / "src"))
    os._exit(importlib.import_module("pytest").main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def tests_of(room: str) -> list[str]:
    return [f"tests/{name}" for name in (room, *USED_BY.get(room, []))]


def survives(scratch: Path, path: Path, source: str, number: int) -> bool:
    target, room = scratch / path.relative_to(ROOT), path.parent.name
    original = target.read_text()
    target.write_text(source)
    os.utime(target, (number, number))  # a time of its own, or Python would take the bytecode of another mutant
    mirror, (own, *others) = f"tests/{room}/test_{path.stem}.py", tests_of(room)
    stages = [[mirror] if (scratch / mirror).exists() else [], [own, f"--ignore={mirror}"], others]
    try:
        return all(passes(scratch, tests) for tests in stages if tests)
    finally:
        target.write_text(original)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=["core", "uncertainty", "layers", "estimators"])
    parser.add_argument("--count", type=int, default=60, help="size of the sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, default=ROOT / "mutants.json")
    parser.add_argument("--again", action="store_true", help="run logged survivors again")
    args = parser.parse_args()
    equivalent = {line.rsplit(" | ", 1)[0] for line in Path(__file__).with_suffix(".txt").read_text().splitlines()}
    paths = [p for room in args.rooms for p in (ROOT / "src/nsac" / room).glob("[!_]*.py") if p.stem not in PICTURES]
    found = {key: (path, source) for path in paths for key, source in mutants(path) if key not in equivalent}
    sample = sorted(found, key=lambda key: hashlib.sha256(f"{args.seed} {key}".encode()).digest())[: args.count]
    log = json.loads(args.log.read_text()) if args.log.exists() else {}
    todo = [key for key in sample if key not in log or (args.again and log[key] == "survived")]
    print(f"{len(found)} mutants, {len(sample)} in the sample, {len(todo)} to run", flush=True)
    for name in PRELOADED.split():
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "project"
        shutil.copytree(ROOT, scratch, ignore=shutil.ignore_patterns(".*", "results", "__pycache__"))
        for room in {found[key][0].parent.name for key in todo}:
            assert passes(scratch, tests_of(room)), f"Some of {tests_of(room)} fail before anything is changed."
        for number, key in enumerate(todo):
            log[key] = "survived" if survives(scratch, *found[key], number) else "killed"
            args.log.write_text(json.dumps(log, indent=1))
            print(log[key], key, flush=True)
    survivors = [key for key in sample if log[key] == "survived"]
    for path, source in (found[key] for key in survivors):
        lines, name = path.read_text().splitlines(keepends=True), str(path.relative_to(ROOT))
        print("".join(difflib.unified_diff(lines, source.splitlines(keepends=True), name, name, n=1)))
    print(f"{len(sample) - len(survivors)} of {len(sample)} killed: {100 - 100 * len(survivors) / len(sample):.1f} %")


if __name__ == "__main__":
    main()
