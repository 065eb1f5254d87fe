"""Names in docstrings exist: what is written ``like this`` is a name of the code around it, or of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src" / "sfumato"
_NAME = re.compile(r"``([A-Za-z_][\w.]*)``")
ELSEWHERE = frozenset(
    # columns and parts of generated SQL, cells, files, HTTP, HTML, words of grammars, and names of other packages
    [
        "sf_unit",
        "k0",
        "v0",
        "v1",
        "c0",
        "x1",
        "region",
        "toc",
        "inf",
        "infinity",
        "nan",
        "HttpOnly",
        "json",
        "StrToTime",
        "DateBin",
        "u",
        "m",
        "with",
        "repr",
        "work_mem",
        "amcheck",
        "private_id",
        "row_privacy",
        "max_ids",
    ]
)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def defined_names() -> set[str]:
    """Every module, function, class, field, parameter, constant and attribute of the package."""
    names = {part for path in SOURCES.rglob("*.py") for part in path.relative_to(SOURCES).with_suffix("").parts}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Attribute(attr=name, ctx=ast.Store()):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()) if name.isupper():
                    names.add(name)
    return names


def unknown_names() -> Iterator[str]:
    known = defined_names() | ELSEWHERE
    for path in sorted(SOURCES.rglob("*.py")):
        module = ast.parse(path.read_text())
        for node in [module, *(each for each in ast.walk(module) if isinstance(each, Definition))]:
            docstring = ast.get_docstring(node) or ""
            for name in _NAME.findall(docstring):
                leaf = name.rpartition(".")[2]
                if leaf not in known and not _is_used(leaf, node):
                    yield f"{path.relative_to(SOURCES)}: ``{name}`` in the docstring of {getattr(node, 'name', 'it')}"


def _is_used(name: str, node: ast.AST) -> bool:
    """Whether the code below a docstring has this name: as a variable, a parameter, a keyword or a text."""
    code = ast.unparse(node.body[1:]) if isinstance(node, ast.Module) else ast.unparse(node)
    docstring = ast.get_docstring(node, clean=False) or ""  # type: ignore[arg-type]
    return re.search(rf"\b{re.escape(name)}\b", code.replace(docstring, "", 1)) is not None


def test_docstrings_name_what_exists() -> None:
    assert not list(unknown_names())
