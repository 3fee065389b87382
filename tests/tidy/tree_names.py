"""What the tree's own names are, read from its files and never imported: for `test_citations`.

A name is resolved from the syntax of the modules that are there now, so that a file that is moved
needs no change here, only the texts that name it.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = (
    "reference", "harness", "nemeses", "checkers", "workloads", "histories", "spark_checkers",
    "tests", "benchmarks",
)  # fmt: skip
BARE = (
    "tests",
    "benchmarks",
    "docs",
)  # imported by the names of their folders; others below `maxq`
MODULES = sorted(p for folder in (*PACKAGES, "docs") for p in (ROOT / folder).rglob("*.py"))
_BELOW = (p for folder in ("docs", "docker", "tests") for p in (ROOT / folder).rglob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *_BELOW])
Defined = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Class:
    """A class: the names of its members, and of its bases."""

    members: set[str] = field(default_factory=set)
    bases: list[str] = field(default_factory=list)


@dataclass
class Module:
    """A module: what it defines, imports and sets; and its classes."""

    names: set[str] = field(default_factory=set)
    classes: dict[str, Class] = field(default_factory=dict)


@dataclass
class Tree:
    """Every module by its dotted name, and every word of the code."""

    modules: dict[str, Module] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        """Whether a dotted name that begins with a package is there."""
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            dotted, rest = ".".join(parts[:cut]), parts[cut:]
            if dotted in self.modules and (not rest or self._defines(self.modules[dotted], rest)):
                return True
            if dotted in self.packages and not rest:
                return True
        return False

    def has_short(self, name: str) -> bool | None:
        """Whether ``module.name`` or ``Class.member`` is there; None: no such module or class."""
        first, *rest = name.split(".")
        modules = [m for n, m in self.modules.items() if n.rpartition(".")[2] == first]
        owners = [m for m in self.modules.values() if first in m.classes]
        if not modules and not owners:
            return None
        found = any(self._defines(m, rest) for m in modules)
        return found or any(self._defines(m, [first, *rest]) for m in owners)

    def _defines(self, module: Module, parts: list[str]) -> bool:
        first, *rest = parts
        if first not in module.names:
            return False
        known = module.classes.get(first)
        return not rest or known is None or self._member(known, rest[0])

    def _member(self, known: Class, name: str) -> bool:
        if name in known.members:
            return True
        bases = [m.classes[b] for b in known.bases for m in self.modules.values() if b in m.classes]
        # Of a base that is not ours nothing is known; `object` and `Struct` have no such member.
        return any(self._member(base, name) for base in bases)


def _targets(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(attr=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _targets(part)
        case ast.Starred(value=value):
            yield from _targets(value)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds, those inside its blocks included."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _targets(target)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            yield from _targets(target)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield (alias.asname or alias.name).partition(".")[0]
        case ast.If() | ast.Try() | ast.With() | ast.For():
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.stmt):
                    yield from _bound(child)


def _class(node: ast.ClassDef) -> Class:
    members = {name for statement in node.body for name in _bound(statement)}
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store(), attr=name):
                members.add(name)
    bases = [name for base in node.bases for name in _targets(base)]
    return Class(members, bases)


def _words(tree: ast.Module) -> Iterator[str]:
    """Identifiers, and texts that are values: what a run, a setting or an operation is called."""
    said = set()  # docstrings, which are no values; a statement is met before its expression
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=value):
                said.add(id(value))
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
                yield word
            case ast.keyword(arg=str(word)):
                yield word
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word):
                yield word
            case ast.ClassDef(name=word):
                yield word
            case ast.alias(name=word):
                yield from word.split(".")
            case ast.Constant(value=str(text)) if id(node) not in said:
                yield from re.findall(r"[\w-]+", text)


def defined(node: ast.AST) -> Iterator[Defined]:
    """A module, and every class and function in it."""
    if isinstance(node, Defined):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from defined(child)


@cache
def parsed(path: Path) -> ast.Module:
    """A module's syntax."""
    return ast.parse(path.read_text())


@cache
def tree() -> Tree:
    """The tree as it is now."""
    found = Tree(words={p.stem for folder in PACKAGES for p in (ROOT / folder).rglob("*.*")})
    for path in MODULES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] in BARE else ("maxq", *parts)
        if parts[-1] == "__init__":
            parts = parts[:-1]
        syntax = parsed(path)
        module = Module({name for statement in syntax.body for name in _bound(statement)})
        module.classes = {n.name: _class(n) for n in syntax.body if isinstance(n, ast.ClassDef)}
        found.modules[".".join(parts)] = module
        found.packages.update(".".join(parts[:n]) for n in range(1, len(parts)))
        found.words.update(_words(syntax))
    return found
