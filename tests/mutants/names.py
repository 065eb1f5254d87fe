"""Names that a seeded bug uses and nothing defines: it would die of a NameError, whatever the tests look at.

A replacement names what stood in its module when it was written. When that is renamed, the text around it may still be
at its anchor. So every name that a changed definition loads is looked up where Python would: in its functions, in its
class if it stands there, in its module and among the builtins. So is every attribute of a module, of a class and of
``self``.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from mutants.anchors import module_definitions
from mutants.running import Mutant


def missing_names(mutant: Mutant) -> list[str]:
    """List the names and attributes of a changed definition that do not exist where it stands."""
    module, _, qualname = mutant.anchor.partition(":")
    namespace = vars(import_module(f"sfumato.{module}" if module else "sfumato"))
    changed, owner = mutant.definition(), _owner(namespace, qualname.split(".")[:-1])
    instance = owner or _owner(namespace, qualname.split("."))
    missing = {name for name, inner in _globals(changed) if not _is_defined(name, namespace, None if inner else owner)}
    return sorted({*missing, *_missing_in_tree(ast.parse(changed), namespace, instance)})


def _owner(namespace: dict[str, Any], path: list[str]) -> type | None:
    """Return the class at a path of names, or None if there is none."""
    value: Any = namespace.get(path[0]) if path else None
    for name in path[1:]:
        value = getattr(value, name, None)
    return value if isinstance(value, type) else None


def _is_defined(name: str, namespace: dict[str, Any], owner: type | None) -> bool:
    return name in namespace or hasattr(builtins, name) or hasattr(owner, name) or name == "__class__"


def _globals(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the names that no scope of a definition binds, and whether a function within it loads them."""

    def walk(table: symtable.SymbolTable, inner: bool) -> Iterator[tuple[str, bool]]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and symbol.is_global() and symbol.get_name() not in bound:
                yield symbol.get_name(), inner
        for child in table.get_children():
            yield from walk(child, inner or child.get_type() == "function")

    # with this import, annotations are not evaluated and have no place in the table
    table = symtable.symtable(f"from __future__ import annotations\n{text}", "a definition", "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    return walk(table, inner=False)


def _missing_in_tree(tree: ast.Module, namespace: dict[str, Any], instance: type | None) -> Iterator[str]:
    """Yield attributes that modules, classes and ``self`` do not have, and what this package does not export."""
    nodes = list(ast.walk(tree))
    local = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    local |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    holders = {name: value for name, value in namespace.items() if name not in local} | {"self": instance}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            if not _has(holders.get(node.value.id), node.attr):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sfumato":
            source = import_module(str(node.module))
            yield from (f"{node.module}.{each.name}" for each in node.names if not _exports(source, each.name))


def _exports(source: ModuleType, name: str) -> bool:
    """Return whether a name can be imported from a module: a package also has modules that nobody imported yet."""
    return hasattr(source, name) or (hasattr(source, "__path__") and find_spec(f"{source.__name__}.{name}") is not None)


def _has(holder: Any, name: str) -> bool:
    if isinstance(holder, ModuleType):
        return hasattr(holder, name)
    return not isinstance(holder, type) or hasattr(holder, name) or name in (_instance_names(holder) or (name,))


@cache
def _instance_names(holder: type) -> frozenset[str]:
    """List what instances of a class or of its subclasses have: fields, methods and what is assigned to ``self``.

    The list is empty if a base from elsewhere may assign more.
    """
    names: set[str] = set()
    for subclass in holder.__subclasses__():
        names |= {*dir(subclass), *_instance_names(subclass)}
    for base in holder.__mro__:
        names |= set(vars(base).get("__annotations__", ()))
        package, _, module = base.__module__.partition(".")
        if package == "sfumato":
            statements = module_definitions(module).get(base.__qualname__, [])
            nodes = (node for statement in statements for node in ast.walk(statement))
            names |= {
                node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            }
        elif package not in ("builtins", "typing", "abc", "enum"):
            return frozenset()
    return frozenset(names)
