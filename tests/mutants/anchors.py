"""Where a seeded bug is put: a definition of a module, and a piece of its text as ``ast.unparse`` writes it.

An anchor such as ``ledger.spending:Tab.settle`` survives formatting, comments and whatever else its module holds; when
a definition moves or its text changes, :func:`proposals` says where the same text stands now.
"""

from __future__ import annotations

import ast
import difflib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "sfumato"


def module_file(module: str) -> str:
    """Return the path of a module under ``src/sfumato``."""
    path = Path(*module.split(".")) if module else Path()
    return str(path / "__init__.py" if (SOURCES / path / "__init__.py").exists() else path.with_suffix(".py"))


def definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Map the qualified name of every function, class, constant and field to the statements that define it."""
    named: dict[str, list[ast.stmt]] = defaultdict(list)

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for statement in body:
            for name in _names(statement):
                named[prefix + name].append(statement)
            if isinstance(statement, ast.ClassDef):
                walk(statement.body, f"{prefix}{statement.name}.")

    walk(tree.body, "")
    return dict(named)


def _names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


@cache
def module_definitions(module: str) -> dict[str, list[ast.stmt]]:
    """Map each definition of a module to its statements: more than one if it stands there several times."""
    path = SOURCES / module_file(module)
    return definitions(ast.parse(path.read_text(encoding="utf-8") if path.is_file() else ""))


@cache
def definition_texts(module: str, name: str) -> tuple[str, ...]:
    """Return the normalised texts of a definition, as often as it stands in its module."""
    return tuple(map(ast.unparse, module_definitions(module).get(name, ())))


class AnchorMoved(ValueError):
    """The text is not where a seeded bug expects it, or not exactly once."""


def changed_definition(anchor: str, old: str, new: str) -> str:
    """Return the text of the definition at an anchor with one piece replaced."""
    module, _, name = anchor.partition(":")
    texts = definition_texts(module, name)
    if sum(text.count(old) for text in texts) != 1:
        raise AnchorMoved(f"the text does not stand in {anchor} exactly once: {old!r}")
    return next(text for text in texts if old in text).replace(old, new)


def changed_module(anchor: str, old: str, new: str) -> str:
    """Return the text of a module with one piece of a definition replaced."""
    module, _, name = anchor.partition(":")
    changed = changed_definition(anchor, old, new)
    tree = ast.parse((SOURCES / module_file(module)).read_text(encoding="utf-8"))
    target = next(statement for statement in definitions(tree)[name] if old in ast.unparse(statement))
    return ast.unparse(_Replacing(target, changed).visit(tree))


class _Replacing(ast.NodeTransformer):
    """Puts the statements of a text in the place of one statement."""

    def __init__(self, target: ast.stmt, text: str) -> None:
        self._target, self._statements = target, ast.parse(text).body

    def generic_visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:  # type: ignore[override]
        return self._statements if node is self._target else super().generic_visit(node)


def modules() -> list[str]:
    """List the dotted names of all modules, relative to the package."""
    paths = (path.relative_to(SOURCES) for path in sorted(SOURCES.rglob("*.py")))
    return [".".join(path.parts[:-1] if path.name == "__init__.py" else path.with_suffix("").parts) for path in paths]


def proposals(anchor: str, old: str) -> list[tuple[str, str]]:
    """List where a seeded bug may belong now, the likeliest first: an anchor, and the text there that is nearest.

    The same text in a definition of the same name comes before the same text elsewhere, and that before the nearest
    lines of the definitions of that name.
    """
    module, _, name = anchor.partition(":")
    last = name.rpartition(".")[2]
    places = [(f"{where}:{qualname}", text) for where in modules() for qualname, text in _unique_texts(where)]
    exact = [place for place, text in places if text.count(old) == 1]
    exact = [place for place in exact if not any(inner.startswith(f"{place}.") for inner in exact)]
    exact.sort(key=lambda place: (place.rpartition(".")[2] != last and not place.endswith(f":{last}"), place))
    if exact:
        return [(place, old) for place in exact]
    same_name = [(place, text) for place, text in places if place.replace(":", ".").endswith(f".{last}")]
    same_name.sort(key=lambda entry: not entry[0].startswith(module))
    near = [(place, _nearest(text, old)) for place, text in same_name]
    return [(place, text) for place, text in near if text]


def _unique_texts(module: str) -> Iterator[tuple[str, str]]:
    for name, statements in module_definitions(module).items():
        if len(statements) == 1:
            yield name, definition_texts(module, name)[0]


def _nearest(text: str, old: str) -> str:
    """Return the lines of a text that look most like another, or nothing."""
    lines, count = text.splitlines(), len(old.strip().splitlines())
    windows = ["\n".join(lines[start : start + count]).strip() for start in range(len(lines) - count + 1)]
    return next(iter(difflib.get_close_matches(old.strip(), windows, n=1, cutoff=0.5)), "")
