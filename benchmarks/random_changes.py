"""Small changes of the code, drawn at random: a comparison, an operation, a constant, a condition, a dropped call, a returned
None; never a message, an annotation or a default. `kill_matrix.py` tries them."""

import ast
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
#: Whose functions are changed.
ROOMS = ("fusion", "networks", "baselines", "runs")
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip


class Change(NamedTuple):
    file: str
    line: int
    """Of the statement that it is in"""
    words: str
    tree: ast.Module
    """The whole changed file"""


def changed(node: ast.AST) -> ast.AST | None:
    """The node with its small change, None where there is none to make."""
    new: Any = copy.deepcopy(node)
    match new:
        case ast.Compare() if type(new.ops[0]) in SWAPPED:
            new.ops[0] = SWAPPED[type(new.ops[0])]()
        case ast.BinOp() | ast.BoolOp() if type(new.op) in SWAPPED:
            new.op = SWAPPED[type(new.op)]()
        case ast.UnaryOp(op=ast.Not()):
            new = new.operand
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int()):
            new.value += 1
        case ast.Constant(value=float()):
            new.value *= 2
        case ast.If() | ast.IfExp() | ast.While():
            new.test = ast.UnaryOp(ast.Not(), new.test)
        case ast.Expr(value=ast.Call()):
            new = ast.Pass()
        case ast.Return(value=ast.expr()):
            new.value = ast.Constant(None)
        case _:
            return None
    return ast.copy_location(new, node)


def places(tree: ast.AST, statement: ast.stmt | None = None, inside: bool = False) -> Iterator[tuple]:
    """(statement, parent, field, index) of every node of a function's body; messages and annotations are left out."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list") or (
            field == "args" and isinstance(tree, ast.FunctionDef)
        ):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                inner = child if isinstance(child, ast.stmt) else statement
                if inside:
                    yield inner, tree, field, index
                yield from places(child, inner, inside or isinstance(child, ast.FunctionDef))


def chosen(count: int, seed: int) -> list[Change]:
    """Random changes; each kind of node is as likely as any other, but for those that break most."""
    kinds: dict[str, list[tuple[Path, int]]] = {}
    for path in sorted(path for room in ROOMS for path in (ROOT / "retrofit_core" / room).rglob("*.py")):
        for number, (_, parent, field, index) in enumerate(places(ast.parse(path.read_text()))):
            node = getattr(parent, field) if index is None else getattr(parent, field)[index]
            if changed(node) is not None:
                kinds.setdefault(type(node).__name__, []).append((path, number))
    chance = random.Random(seed)
    names = [name for name in sorted(kinds) for _ in range(1 if name in ("Return", "While") else 3)]
    return [made(*chance.choice(kinds[chance.choice(names)])) for _ in range(count)]


def made(path: Path, number: int) -> Change:
    tree = ast.parse(path.read_text())
    statement, parent, field, index = list(places(tree))[number]
    old = getattr(parent, field) if index is None else getattr(parent, field)[index]
    new: Any = changed(old)
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new
    words = f"{ast.unparse(old)[:80]} -> {ast.unparse(new)[:80]}"
    return Change(str(path.relative_to(ROOT)), statement.lineno, words, ast.fix_missing_locations(tree))


def marked(file: str, numbers: dict[int, int]) -> ast.Module:
    """A file's tree that notes a number in front of the statement that begins on a line."""
    tree = ast.parse((ROOT / file).read_text())
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(body := getattr(node, field, None), list):
                for one in [one for one in body if one.lineno in numbers]:
                    body.insert(body.index(one), ast.parse(f"__hit__({numbers[one.lineno]})").body[0])
    return ast.fix_missing_locations(tree)
