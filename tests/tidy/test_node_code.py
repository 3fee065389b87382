"""What node code must leave alone, so that a run follows from its seed, found in its syntax.

A node may wait for tasks only in ways whose order is that of its own program, and must own all of
its state: what a module holds is shared by all nodes of a simulated world, and by all runs of a
process. Mutants replace attributes of modules by design and are left out.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NODE_CODE = sorted(
    p for p in (ROOT / "reference").rglob("*.py") if "mutants" not in p.parts and p.read_text()
)
UNORDERED = {"wait", "as_completed"}  # of asyncio: both keep what they are given in sets
CACHES = {"lru_cache", "cache", "cached_property"}
MAKERS = {"dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict", "count", "cycle"}
MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "setdefault", "update",
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(node: ast.AST) -> str:
    """The last part of a name: ``count`` of ``itertools.count``."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Nodes of a function without those of functions inside of it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, Function):
            todo += ast.iter_child_nodes(node)


def made_by_modules(tree: ast.Module) -> dict[str, str]:
    """Names of a module that hold something mutable, and what makes it."""
    found: dict[str, str] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        value = statement.value
        mutable = isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp)
        if mutable or (isinstance(value, ast.Call) and name_of(value) in MAKERS):
            targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore[union-attr]
            found |= {t.id: name_of(value) for t in targets if isinstance(t, ast.Name)}
    return found


def change(node: ast.AST, names: set[str]) -> str:
    """How a node of a function changes one of these names; empty if it does not."""
    match node:
        case ast.Global():
            return f"global {', '.join(node.names)}"
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return f"{name}[…] is changed" if name in names else ""
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=verb)):
            return f"{name}.{verb}" if name in names and verb in MUTATORS else ""
        case ast.Call(func=ast.Name(id="next"), args=[ast.Name(id=name), *_]):
            return f"next({name})" if name in names else ""
    return ""


def shape(node: ast.AST) -> str:
    """What is wrong with a node wherever it stands; empty if nothing is."""
    match node:
        case ast.Attribute(value=ast.Name(id="asyncio"), attr=name) if name in UNORDERED:
            return f"asyncio.{name} has no order"
        case ast.ImportFrom(module="asyncio") if UNORDERED & {a.name for a in node.names}:
            return f"asyncio.{node.names[0].name} has no order"
        case ast.AsyncFunctionDef() if any(isinstance(n, ast.Yield) for n in own_nodes(node)):
            return f"{node.name} is an async generator: its end is the collector's"
        case ast.FunctionDef() if CACHES & {name_of(d) for d in node.decorator_list}:
            return f"{node.name} is cached"
    return ""


def faults(text: str) -> list[str]:
    """What is wrong with a module of a node."""
    tree = ast.parse(text)
    made = made_by_modules(tree)
    found = [f"{name} counts" for name, by in made.items() if by in ("count", "cycle")]
    for node in ast.walk(tree):
        found.append(shape(node))
        if isinstance(node, Function):
            found += [change(inner, set(made)) for inner in own_nodes(node)]
    return [fault for fault in found if fault]


@pytest.mark.parametrize("path", NODE_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_node_code_keeps_to_what_a_seed_decides(path: Path) -> None:
    assert faults(path.read_text()) == []


BAD = {
    "import asyncio\nasync def f(ts):\n    await asyncio.wait(ts)": "asyncio.wait",
    "from asyncio import as_completed": "as_completed",
    "@lru_cache(maxsize=1)\ndef f(): pass": "f is cached",
    "@functools.cache\ndef f(): pass": "f is cached",
    "async def f():\n    yield 1": "async generator",
    "import itertools\nNUMBERS = itertools.count()": "NUMBERS counts",
    "SEEN = {}\ndef f(k):\n    SEEN[k] = 1": "SEEN[…]",
    "SEEN: set[int] = set()\ndef f(k):\n    SEEN.add(k)": "SEEN.add",
    "SEEN = [1]\ndef f():\n    del SEEN[0]": "SEEN[…]",
    "LAST = 0\ndef f():\n    global LAST\n    LAST += 1": "global LAST",
}


@pytest.mark.parametrize("text", BAD)
def test_what_a_node_must_not_do_is_found(text: str) -> None:
    assert any(BAD[text] in fault for fault in faults(text))


def test_what_a_node_may_do_is_not() -> None:
    text = """
import asyncio
NAMES = {1: "a"}
def names():
    found = {}
    found[1] = NAMES[1]
    return dict(NAMES)
async def both(a, b):
    return await asyncio.gather(a, b)
"""
    assert faults(text) == []
