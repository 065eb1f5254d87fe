"""Names in docstrings exist: what is written ``like this`` is a name of the code around it, or of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src" / "sfumato"
_NAME = re.compile(r"``([A-Za-z_][\w.]*)``")
_DEFINED = re.compile(
    r"^ *(?:async def|def|class) (\w+)|^(?:    )?(\w+): |^ *self\.(\w+)|^([A-Z_]+)(?:,| =)", re.MULTILINE
)
ELSEWHERE = frozenset(
    {
        *("sf_unit", "k0", "v0", "v1", "c0", "x1", "u"),  # columns and parts of generated SQL
        *("inf", "infinity", "nan", "region", "m", "with", "repr"),  # cells, an example's column, mathematics, Python
        *("json", "toc", "HttpOnly", "work_mem", "amcheck", "StrToTime", "DateBin"),  # files, HTML and other software
        *("private_id", "row_privacy", "max_ids"),  # keys of SmartNoise metadata
    }
)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def defined_names() -> set[str]:
    """Every module, function, class, field and constant of the package."""
    names = {part for path in SOURCES.rglob("*.py") for part in path.relative_to(SOURCES).with_suffix("").parts}
    for path in SOURCES.rglob("*.py"):
        names |= {name for found in _DEFINED.findall(path.read_text()) for name in found}
    return names


def definitions(node: ast.AST) -> Iterator[Definition]:
    """Yield every definition below a node; none is in an expression."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child
        if not isinstance(child, ast.expr):
            yield from definitions(child)


def unknown_names() -> Iterator[str]:
    known = defined_names() | ELSEWHERE
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text()
        if known.issuperset(name.rpartition(".")[2] for name in _NAME.findall(source)):
            continue  # parsing every module takes long
        module, lines = ast.parse(source), source.splitlines()
        for node in [module, *definitions(module)]:
            for name in _NAME.findall(ast.get_docstring(node) or ""):
                leaf = name.rpartition(".")[2]
                if leaf not in known and not re.search(rf"\b{re.escape(leaf)}\b", _code(node, lines)):
                    yield f"{path.relative_to(SOURCES)}: ``{name}`` in the docstring of {getattr(node, 'name', 'it')}"


def _code(node: ast.Module | Definition, lines: list[str]) -> str:
    """The lines of a definition without those of its docstring."""
    docstring = node.body[0]
    first = 1 if isinstance(node, ast.Module) else node.lineno
    last = len(lines) if isinstance(node, ast.Module) else node.end_lineno
    return "\n".join(lines[first - 1 : docstring.lineno - 1] + lines[docstring.end_lineno : last])


def test_docstrings_name_what_exists() -> None:
    assert not list(unknown_names())
