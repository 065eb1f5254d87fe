"""Refusals name parameters that exist: a renamed parameter is renamed in its message, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src" / "sfumato"
ARGUMENT_ORDER = {"InvalidParameter": (0, 1), "exact": (1, 0), "exact_integer": (1, 0)}
"""The positions of the parameter's name and of its value in the calls that refuse one."""
ANY_VALUE = frozenset({"value", "text", "name", "given", "option", "self"})
"""Parameters of functions that parse or find whatever the message names."""
CALLERS_ARGUMENTS = frozenset(
    {
        "power.AssumedPairs sizes",
        *("attribute.StudySize looks", "game.start_round against", "membership.draw_candidates candidates"),
        *("exact_laws.quantiles_law neighbours", "exact_laws.report_pairs neighbours"),
        *("exact_laws.kept_keys_law neighbours", "verdicts.Verdict verdict", "events.OutputShares laws"),
        *("question_advice.refuse_range_of_time_quantiles range", "selected_columns.code_selected_columns columns"),
        *("linked_table_selects.LinkedTables columns", "linked_table_selects.link_tables tables"),
        *("csv_layouts.detect_text_format delimiter", "environment.law_of_selection mechanism"),
        *(
            "environment.WelfareSelection mechanism",
            "environment.as_truthfulness_problem game",
            "hypothesis_tests.parse_shares shares",
        ),
        *("hypothesis_tests.trend_contrast scores", "aggregations.aggregate_tree agg", "domains.ListColumn most_items"),
        *("losses.ResponseLoss delta", "losses.BoundedRangeLoss epsilon", "subsampled_losses.SubsampledLoss k"),
        *("threshold_losses.LaplaceKeyThresholdLoss delta", "threshold_losses.GaussianKeyThresholdLoss delta"),
        *("anchors.AnchoredAccount accounts", "scoring.CandidateScore score", "signing_keys.PublicKey key"),
        *("answer_pictures.parse_noise_limit above", "shares.noise_family mechanism"),
        "counts.SurveyEstimate question",
    }
)
"""Module, function or class, and the argument of its callers that the message names instead of its own parameter."""
DESCRIPTIONS = frozenset(
    {
        *("lengths of outcome, x and y", "p and q", "x and y", "who", "clipped", "center"),
        *("the sensitivity of this question", "the sum", "distribution"),
    }
)
"""What is refused and is no parameter: several of them, a number computed from them, a method, a part of a text."""
_REFUSED_NAME = re.compile(r"""\bInvalidParameter\(\s*"(\w+)"|\bexact(?:_integer)?\([^"]*?, "(\w+)\"""")
_DECLARED_NAME = re.compile(r"\b(\w+): ")
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@cache
def sources() -> dict[Path, str]:
    return {path: path.read_text() for path in sorted(SOURCES.rglob("*.py"))}


@cache
def declared_names() -> frozenset[str]:
    """Return the parameters of all functions of the package, and the fields of its classes."""
    return frozenset(name for source in sources().values() for name in _DECLARED_NAME.findall(source))


def refuses_undeclared(source: str) -> bool:
    """Whether a module seems to refuse a name that is no parameter in it: parsing every module takes long."""
    names = {"".join(found) for found in _REFUSED_NAME.findall(source)}
    return any(f"{name}: " not in source for name in names)


def parameters(function: Function) -> set[str]:
    arguments = function.args
    stars = [star for star in (arguments.vararg, arguments.kwarg) if star]
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars)}


def fields(definition: ast.ClassDef) -> set[str]:
    return {
        each.target.id
        for each in definition.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def is_public(name: str) -> bool:
    return not name.startswith("_") or name.startswith("__")


def refusals(
    node: ast.AST, known: set[str], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    """Yield where each refusal stands, the name in it, and the parameter whose value it refuses, if it is one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield from refusals(child, known | parameters(child), (*path, getattr(child, "name", "_")))
        elif isinstance(child, ast.ClassDef):
            yield from refusals(child, known | fields(child), (*path, child.name))
        else:
            name, value = refused_argument(child)
            if name and name not in known:
                yield path, name, value if value in known else None
            yield from refusals(child, known, path)


def refused_argument(node: ast.AST) -> tuple[str | None, str | None]:
    """Return the name in a refusal, if it is one with a literal name, and the variable or own field that is refused."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or len(node.args) < 2:
        return None, None
    order = ARGUMENT_ORDER.get(node.func.id)
    name = node.args[order[0]] if order else None
    if order is None or not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None, None
    value = node.args[order[1]]
    own_field = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self"
    return name.value, value.id if isinstance(value, ast.Name) else value.attr if own_field else None


def wrong_names(path: Path, module: ast.Module) -> Iterator[str]:
    for place, name, parameter in refusals(module, set(), (path.stem,)):
        is_parameter_of_public = parameter not in ANY_VALUE | {None} and all(map(is_public, place[1:]))
        if is_parameter_of_public:
            if f"{'.'.join(place[:2])} {name}" not in CALLERS_ARGUMENTS:
                yield f"{'.'.join(place)} refuses {parameter} as {name}"
        elif name not in DESCRIPTIONS and name not in declared_names():
            yield f"{'.'.join(place)} refuses {name}, which nothing takes"


def test_refusals_name_parameters_that_exist() -> None:
    suspects = {path: source for path, source in sources().items() if refuses_undeclared(source)}
    assert not [wrong for path, source in suspects.items() for wrong in wrong_names(path, ast.parse(source))]


def test_a_name_left_behind_by_a_renamed_parameter_is_found() -> None:
    public = ast.parse("def settle(max_moves):\n    return exact_integer(max_moves, 'most_moves', at_least=1)")
    private = ast.parse("def _settle(moves):\n    raise InvalidParameter('gone_moves', moves, 'fewer')")
    assert list(wrong_names(Path("play.py"), public)) == ["play.settle refuses max_moves as most_moves"]
    assert list(wrong_names(Path("play.py"), private)) == ["play._settle refuses gone_moves, which nothing takes"]
