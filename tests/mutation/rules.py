"""Small plausible bugs, planted by rule: each rule looks at a node of the syntax tree and says what
a slip would have made of its source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """A bug: in `path`, the text from `start` to `end` (offsets) becomes `text`.

    function: the names of the functions and classes around it. first: the first line of the
    function. lines: first and last line of its statement, without the statements inside of that.
    """

    path: str
    line: int
    rule: str
    start: int
    end: int
    before: str
    text: str
    function: str
    first: int
    lines: tuple[int, int]

    def applied(self, source: str) -> str:
        assert source[self.start : self.end] == self.before
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(s.split())[:200] for s in (self.before, self.text))
        place = f"{self.path}:{self.line} in {self.function}"
        return f"{place}, {self.rule}: {before} -> {after or '(nothing)'}"


Rule = Callable[[ast.AST, Any], Iterator[tuple[ast.AST, str]]]

_NEIGHBOURS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_SLIPS = {ast.Add: "-", ast.Sub: "+", ast.FloorDiv: "*", ast.Mult: "+", ast.Mod: "//"}
#: Functions whose two arguments may change places.
_SYMMETRIC = (
    *("max", "min", "maximum", "minimum", "fmax", "fmin", "add", "multiply", "equal", "not_equal"),
    *("logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"),
    *("hypot", "mul_hi", "mulhi", "allclose", "array_equal", "result_type", "promote_types"),
)
_WAITS = "syncthreads", "syncwarp", "synchronize", "wait_stream", "barrier"
_CHECKS = "require", "check", "_check", "_constant"
#: What people read: another text is no bug that a program meets.
_DESCRIBE = "__repr__", "__str__", "describe", "description"
_DTYPES = {
    "float64": "float32",
    "float32": "float16",
    "int64": "int32",
    "uint64": "uint32",
    "complex128": "complex64",
    "int32": "int16",
}


class Text(str):
    """A file's source, in which nodes are found quickly."""

    def __new__(cls, source: str) -> Text:
        text = super().__new__(cls, source)
        text.rows = source.splitlines(keepends=True)
        text.starts = [0]
        for row in text.rows:
            text.starts.append(text.starts[-1] + len(row))
        return text

    def offset(self, line: int, column: int) -> int:
        """Where a place of the syntax tree is; columns are bytes there."""
        row = self.rows[line - 1]
        wide = column if row.isascii() else len(row.encode()[:column].decode())
        return self.starts[line - 1] + wide

    def place(self, node: ast.AST) -> tuple[int, int]:
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)


def _text(node: ast.AST, source: Text) -> str:
    start, end = source.place(node)
    return source[start:end]


def comparison(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """< for <=, and the other neighbours."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _text(node.left, source), _text(node.comparators[0], source)
        yield node, f"{left} {_NEIGHBOURS[type(node.ops[0])]} {right}"


def off_by_one(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """A small integer, and the bounds of a slice, one off."""
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < 64:
        yield node, str(node.value + 1)
    if isinstance(node, ast.Call) and _text(node.func, source) == "range" and len(node.args) == 1:
        yield node.args[0], f"({_text(node.args[0], source)}) - 1"


def operands(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """Operands in the other order, or another operator."""
    if isinstance(node, ast.BinOp):
        left, right = _text(node.left, source), _text(node.right, source)
        if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult)):
            sign = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//", ast.MatMult: "@"}
            yield node, f"({right}) {sign[type(node.op)]} ({left})"
        if type(node.op) in _SLIPS and not isinstance(node.left, (ast.List, ast.Tuple)):
            yield node, f"({left}) {_SLIPS[type(node.op)]} ({right})"
    if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
        first, second = (_text(a, source) for a in node.args)
        if _text(node.func, source).rsplit(".", 1)[-1] in _SYMMETRIC:
            return
        if first != second and not any(isinstance(a, ast.Starred) for a in node.args):
            yield node, f"{_text(node.func, source)}({second}, {first})"


def conditions(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """A check that is weaker: one of its parts is left out, or turned round."""
    if isinstance(node, ast.BoolOp):
        for i in range(len(node.values)):
            kept = [f"({_text(v, source)})" for k, v in enumerate(node.values) if k != i]
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield node, f"({word.join(kept)})"
    if isinstance(node, ast.IfExp):
        body, test, other = (_text(n, source) for n in (node.body, node.test, node.orelse))
        yield node, f"({other} if {test} else {body})"


def synchronisation(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """A wait or a barrier that is missing."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if _text(node.value.func, source).rsplit(".", 1)[-1] in _WAITS:
            yield node, "pass"


def checks(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """An error that is not raised; a state that is not put back. An AssertionError says what no
    call reaches."""
    if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1:
        raised = node.body[0]
        if isinstance(raised, ast.Raise) and "AssertionError" not in ast.dump(raised):
            yield node, "pass"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if _text(node.value.func, source).rsplit(".", 1)[-1] in _CHECKS:
            yield node, "pass"


def dtypes(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """A narrower dtype."""
    if isinstance(node, ast.Attribute) and node.attr in _DTYPES:
        if _text(node.value, source) in ("np", "types"):
            yield node, f"{_text(node.value, source)}.{_DTYPES[node.attr]}"


def keys(node: ast.AST, source: Text) -> Iterator[tuple[ast.AST, str]]:
    """A key of a table that lacks a member."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        if any("key" in name for name in names) and len(node.value.elts) > 1:
            for i in range(len(node.value.elts)):
                kept = [_text(e, source) for k, e in enumerate(node.value.elts) if k != i]
                yield node.value, f"({', '.join(kept)},)"


RULES: dict[str, Rule] = {
    "comparison": comparison,
    "off by one": off_by_one,
    "operands": operands,
    "weaker condition": conditions,
    "dropped synchronisation": synchronisation,
    "dropped check": checks,
    "wrong dtype": dtypes,
    "missing key member": keys,
}


class Place(NamedTuple):
    """Where a node is."""

    function: str  # the names around it
    first: int  # line of its function; 0 outside
    lines: tuple[int, int]  # of its statement


def _lines(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement, but for the statements in it."""
    body = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    last = min((child.lineno for child in body), default=node.end_lineno + 1) - 1
    return node.lineno, max(node.lineno, last)


def _functions(tree: ast.AST) -> Iterator[tuple[ast.AST, Place]]:
    """The nodes inside of functions, without docstrings, annotations and messages of errors."""
    pending = [(tree, Place("", 0, (0, 0)))]
    while pending:
        node, place = pending.pop()
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.AnnAssign)):
            continue
        if isinstance(node, ast.stmt):
            place = place._replace(lines=_lines(node))
        if place.first:
            yield node, place
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = f"{place.function}.{node.name}".lstrip(".")
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            inside = isinstance(node, ast.FunctionDef)
            place = Place(name, first if inside else place.first, place.lines)
            if inside and (node.name in _DESCRIBE or node.name.startswith("describe")):
                continue
        elif isinstance(node, ast.Lambda):
            place = place._replace(first=node.lineno, function=place.function or "lambda")
        for field, child in ast.iter_fields(node):
            if field in ("decorator_list", "returns", "annotation"):
                continue
            if field == "args" and isinstance(node, (ast.FunctionDef, ast.Lambda)):
                continue
            for part in child if isinstance(child, list) else [child]:
                if isinstance(part, ast.AST):
                    pending.append((part, place))


def mutants(path: str, source: str) -> list[Mutant]:
    """All bugs of all rules in a file."""
    source = Text(source)
    found = []
    for node, where in _functions(ast.parse(source)):
        for name, rule in RULES.items():
            for place, text in rule(node, source):
                start, end = source.place(place)
                before = source[start:end]
                if before != text:
                    found.append(Mutant(path, place.lineno, name, start, end, before, text, *where))
    return sorted(found, key=lambda m: (m.start, m.end, m.rule, m.text))
