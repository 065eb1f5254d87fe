"""The functions that a privacy claim hangs on, and their statement blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PACKAGE = SOURCES / "sfumato"

TARGETS = """
privacy mechanisms plan/bounding.py plan/limits.py plan/nodes.py plan/sharing.py plan/costs.py plan/keys.py
plan/account_periods.py plan/aggregates plan/readings plan/sql/unit_joins.py plan/sql/row_sources.py
plan/sql/row_sources.py plan/sql/unit_aggregates.py plan/values/countable.py
plan/values/narrowing.py engine/lowering release/parts release/noisy_rows release/batch_prices.py
release/comparisons.py release/discovered_groups.py release/measured.py release/measurement.py
release/payers.py release/pricing.py release/prices.py release/releasing.py release/requests.py
release/running_totals.py publish/marginals publish/synthesis publish/graph publish/links.py publish/mwem.py
publish/synthetic_tables.py publish/online.py publish/scoring.py publish/synopsis.py publish/synthetic.py
publish/tab_steps.py
publish/cells/answering.py publish/cells/groups.py ledger/spending.py ledger/entries.py
ledger/accounts ledger/transaction.py ledger/guarded.py curator/proposals inference/logistic.py
inference/moments.py
"""
"""Files and folders under ``src/sfumato`` whose functions are mutated."""

NOT_CLAIMS = """
privacy/pictures.py
privacy/precedents.py privacy/codec.py privacy/codec_schemas.py
publish/synthesis/forecasting.py
"""
"""Pictures, words and file formats inside those folders."""
NO_CLAIM = Path(__file__).with_name("no_claim.txt")
"""Functions inside those modules that no claim hangs on, such as caches, searches and forecasts of time."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """An outermost function or method of a target module."""

    module: str
    """Dotted, such as ``sfumato.privacy.budget``."""
    qualname: str
    """As Python writes it, such as ``Budget.cost``."""

    def __str__(self) -> str:
        return f"{self.module.removeprefix('sfumato.')}:{self.qualname}"


def target_modules() -> list[str]:
    """List the dotted names of all modules that are mutated."""
    paths = {path for target in TARGETS.split() for path in _files(PACKAGE / target)}
    return sorted(module_name(path) for path in paths if str(path.relative_to(PACKAGE)) not in NOT_CLAIMS.split())


def _files(target: Path) -> list[Path]:
    if not target.exists():
        raise FileNotFoundError(f"{target.relative_to(ROOT)} is named in tests/mutation/sources.py and does not exist")
    return [target] if target.is_file() else [path for path in target.rglob("*.py") if path.name != "__init__.py"]


def noted_names(path: Path) -> dict[str, str]:
    """Read a list of names, each with a reason below it, up to a blank line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = "\n".join(line for line in lines if not line.startswith("#")).split("\n\n")
    parted = (entry.strip().partition("\n") for entry in entries if entry.strip())
    return {name: " ".join(reason.split()) for name, _, reason in parted}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCES).with_suffix("").parts)


def module_path(module: str) -> Path:
    return SOURCES.joinpath(*module.split(".")).with_suffix(".py")


@cache
def module_tree(module: str) -> ast.Module:
    return ast.parse(module_path(module).read_text(encoding="utf-8"))


def functions(tree: ast.Module) -> Iterator[tuple[str, FunctionNode]]:
    """Yield every outermost function with its qualified name; nested ones belong to the function around them."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
        for node in body:
            if isinstance(node, FunctionNode):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.")

    yield from ((qualname, node) for qualname, node in walk(tree.body, "") if not _is_overload(node))


def _is_overload(node: FunctionNode) -> bool:
    return any(getattr(decorator, "id", "") == "overload" for decorator in node.decorator_list)


def blocks(function: FunctionNode) -> list[list[ast.stmt]]:
    """List the statement lists of a function in a fixed order: its body, then those of its branches and loops."""
    found: list[list[ast.stmt]] = []
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements and not isinstance(node, ast.ClassDef):
                found.append(statements)
    return found


@cache
def block_indexes(module: str, qualname: str) -> dict[int, int]:
    """Map the identity of every node of a function to the index of the innermost block that holds it."""
    indexes: dict[int, int] = {}
    for index, statements in enumerate(blocks(dict(functions(module_tree(module)))[qualname])):
        # ast.walk is breadth first: of two blocks that hold a node, the later one lies within the earlier
        indexes |= {id(node): index for statement in statements for node in ast.walk(statement)}
    return indexes
