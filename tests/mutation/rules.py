"""The rules that make mutants: each takes one node of a function's syntax tree and offers replacements for it."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from mutation.sources import NO_CLAIM, Function, FunctionNode, functions, module_tree, noted_names, target_modules

Rule = Callable[[Any, "Scope"], Iterator[ast.AST]]
_RULES: dict[str, tuple[type[ast.AST] | tuple[type[ast.AST], ...], Rule]] = {}

DRAWS = frozenset({"draw", "draw_one", "added", "apply", "shorts", "integer", "all_below", "each_below"})
"""Methods and functions of ``mechanisms`` whose result is random."""
TURNED = {
    "ceil": "floor",
    "floor": "ceil",
    "rounded_up": "rounded_down",
    "rounded_down": "rounded_up",
    "rounded_up_to_13_digits": "rounded_down_to_13_digits",
    "rounded_down_to_13_digits": "rounded_up_to_13_digits",
    "raised": "lowered",
    "lowered": "raised",
    "above": "below",
    "float_above": "float_below",
    "float_below": "float_above",
    "charge_units": "allowance_units",
    "allowance_units": "charge_units",
}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "fmin": "fmax", "fmax": "fmin"}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Scope:
    """What a rule may look up: the module that a function is in, and its class."""

    module: str
    class_name: str

    def resolve(self, target: ast.expr) -> Any:
        """Return the object that a called name or ``self.name`` refers to, or None."""
        namespace = vars(import_module(self.module))
        if isinstance(target, ast.Name):
            return namespace.get(target.id)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = namespace.get(self.class_name if target.value.id in ("self", "cls") else target.value.id)
            return getattr(owner, target.attr, None)
        return None

    @property
    def draws(self) -> bool:
        """Whether the module is one of those that draw noise or ask for it."""
        return self.module.startswith(("sfumato.mechanisms", "sfumato.release", "sfumato.publish"))

    def has(self, name: str) -> bool:
        return name in vars(import_module(self.module))


@dataclass(frozen=True)
class Mutant:
    """One small change of one function, known by what it changes and not by its line."""

    function: Function
    rule: str
    before: str
    after: str
    ordinal: int
    """Which of the equal changes in this function, from 0."""

    def __str__(self) -> str:
        return f"{self.function} | {self.rule} | {self.before} → {self.after} | {self.ordinal}"


@dataclass(frozen=True)
class Site:
    """A mutant with the places in the tree that it was made from: the path to a node, and the node put there."""

    mutant: Mutant
    path: tuple[tuple[str, int | None], ...]
    replacement: ast.AST


def rule(name: str, *kinds: type[ast.AST]) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES[name] = (kinds, function)
        return function

    return register


@rule("constant", ast.Constant)
def _constants(node: ast.Constant, _: Scope) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value:
            yield ast.Constant(value - 1)
        if abs(value) > 1:
            yield ast.Constant(value * 2)
    elif isinstance(value, float):
        yield ast.Constant(value * 2)


@rule("comparison", ast.Compare)
def _comparisons(node: ast.Compare, _: Scope) -> Iterator[ast.AST]:
    for index, operator in enumerate(node.ops):
        changed = copy.deepcopy(node)
        changed.ops[index] = COMPARISONS[type(operator)]()
        yield changed


@rule("extreme", ast.Name, ast.Attribute)
def _extremes(node: ast.Name | ast.Attribute, _: Scope) -> Iterator[ast.AST]:
    yield from _renamed(node, EXTREMES)


@rule("rounding", ast.Name, ast.Attribute, ast.BinOp)
def _roundings(node: ast.Name | ast.Attribute | ast.BinOp, scope: Scope) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.FloorDiv):
            negative = ast.UnaryOp(ast.USub(), copy.deepcopy(node.left))
            yield ast.UnaryOp(ast.USub(), ast.BinOp(negative, ast.FloorDiv(), copy.deepcopy(node.right)))
    elif isinstance(node, ast.Attribute) or scope.has(TURNED.get(node.id, "")):
        yield from _renamed(node, TURNED)


def _renamed(node: ast.Name | ast.Attribute, names: dict[str, str]) -> Iterator[ast.AST]:
    name = node.id if isinstance(node, ast.Name) else node.attr
    if name in names and isinstance(node.ctx, ast.Load):
        changed = copy.deepcopy(node)
        setattr(changed, "id" if isinstance(changed, ast.Name) else "attr", names[name])
        yield changed


@rule("condition", ast.BoolOp, ast.If, ast.IfExp, ast.comprehension)
def _conditions(node: Any, _: Scope) -> Iterator[ast.AST]:
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = [copy.deepcopy(value) for place, value in enumerate(node.values) if place != index]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.IfExp):
        yield copy.deepcopy(node.body)
        yield copy.deepcopy(node.orelse)
    elif isinstance(node, ast.comprehension):
        for index in range(len(node.ifs)):
            changed = copy.deepcopy(node)
            del changed.ifs[index]
            yield changed
    elif isinstance(node, ast.If):
        yield from (_with_test(node, outcome) for outcome in (False, True))


def _with_test(node: ast.If, outcome: bool) -> ast.If:
    changed = copy.deepcopy(node)
    changed.test = ast.Constant(outcome)
    return changed


@rule("negation", ast.UnaryOp)
def _negations(node: ast.UnaryOp, _: Scope) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield copy.deepcopy(node.operand)


@rule("term", ast.BinOp, ast.Call, ast.AugAssign)
def _terms(node: ast.BinOp | ast.Call | ast.AugAssign, _: Scope) -> Iterator[ast.AST]:
    """One of several terms or factors is dropped; the first term of a sum is not added."""
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()
    elif isinstance(node, ast.Call):
        if getattr(node.func, "id", "") == "sum" and node.args:
            rest = ast.Subscript(
                ast.Call(ast.Name("list", ast.Load()), [copy.deepcopy(node.args[0])], []),
                ast.Slice(ast.Constant(1), None, None),
                ast.Load(),
            )
            yield ast.Call(node.func, [rest, *map(copy.deepcopy, node.args[1:])], copy.deepcopy(node.keywords))
    elif not _is_text(node.left) and not _is_text(node.right):
        yield copy.deepcopy(node.left)
        if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
            yield copy.deepcopy(node.right)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@rule("swapped arguments", ast.Call)
def _swaps(node: ast.Call, scope: Scope) -> Iterator[ast.AST]:
    """Two neighbouring arguments of the same declared type change places."""
    types = _parameter_types(scope.resolve(node.func))
    for index in range(min(len(node.args), len(types)) - 1):
        left, right = node.args[index : index + 2]
        if isinstance(left, ast.Starred) or isinstance(right, ast.Starred):
            return
        if types[index] == types[index + 1] and ast.dump(left) != ast.dump(right):
            changed = copy.deepcopy(node)
            changed.args[index : index + 2] = reversed(changed.args[index : index + 2])
            yield changed


def _parameter_types(callee: Any) -> list[object]:
    if not callable(callee) or callee in vars(builtins).values():
        return []
    try:
        parameters = inspect.signature(callee).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.annotation for parameter in parameters if parameter.kind in positional]
    return [object() if name is inspect.Parameter.empty else name for name in names]


@rule("reused draw", ast.Call)
def _reused_draws(node: ast.Call, scope: Scope) -> Iterator[ast.AST]:
    """Equal draws at this place share one noise."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if scope.draws and name in DRAWS and not any(isinstance(argument, ast.Starred) for argument in node.args):
        helper = ast.Name("__reused_draw__", ast.Load())
        yield ast.Call(helper, [copy.deepcopy(node.func), *map(copy.deepcopy, node.args)], copy.deepcopy(node.keywords))


@rule("left out", ast.Expr, ast.Call, ast.Delete)
def _left_out(node: Any, _: Scope) -> Iterator[ast.AST]:
    """A check, a removal or a replaced field is left out: a guard that no longer guards, a salt that stays in."""
    if isinstance(node, ast.Delete):
        yield ast.Pass()
    elif isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call):
            yield ast.Pass()
    elif getattr(node.func, "id", getattr(node.func, "attr", "")) == "replace":
        for index, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                changed = copy.deepcopy(node)
                del changed.keywords[index]
                yield changed


_SKIPPED_FIELDS = {"decorator_list", "annotation", "returns", "type_params", "type_comment"}


def _places(node: ast.AST, path: tuple[tuple[str, int | None], ...] = ()) -> Iterator[tuple[Any, ast.AST]]:
    """Yield every node of a function's body that may be changed; messages, annotations and defaults are left alone.

    So is ``strict=True`` of ``zip``, which checks what was computed just before it and decides nothing.
    """
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    yield path, node
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED_FIELDS or isinstance(value, ast.arguments):
            continue
        if isinstance(value, ast.AST) and not isinstance(value, ast.Raise | ast.JoinedStr):
            yield from _places(value, (*path, (field, None)))
        elif isinstance(value, list):
            for index, part in enumerate(value):
                if isinstance(part, ast.AST) and not isinstance(part, ast.Raise | ast.JoinedStr | ast.Assert):
                    yield from _places(part, (*path, (field, index)))


def sites(module: str) -> Iterator[Site]:
    """Yield every mutant of a module that compiles to something else."""
    for qualname, node in functions(module_tree(module)):
        function = Function(module, qualname)
        if not _makes_words(node) and str(function) not in _no_claim():
            yield from function_sites(function, node)


@cache
def _no_claim() -> frozenset[str]:
    return frozenset(noted_names(NO_CLAIM))


def _makes_words(node: FunctionNode) -> bool:
    """Texts for people are no claims: whatever returns a string, a picture or a refusal, or only writes itself."""
    returns = ast.unparse(node.returns) if node.returns is not None else ""
    if node.name == "to_json":  # what is written must hold no secret
        return False
    texts, refusals = ("str", "tuple[str, ...]", "tuple[str, str]", "list[str]"), ("Unsupported", "InvalidParameter")
    return returns in (*texts, *refusals) or node.name in (
        *("__repr__", "__str__", "_repr_html_", "words", "notes", "explain", "describe", "__reduce__", "__hash__"),
    )


def function_sites(function: Function, node: FunctionNode) -> Iterator[Site]:
    scope = Scope(function.module, function.qualname.rpartition(".")[0])
    ordinals: dict[tuple[str, str, str], int] = {}
    for path, place in _places(node):
        for name, (kinds, offer) in _RULES.items():
            if not isinstance(place, kinds) or not path:
                continue
            for replacement in offer(place, scope):
                before, after = _text(place), _text(replacement)
                if before != after:
                    ordinal = ordinals.get((name, before, after), -1) + 1
                    ordinals[name, before, after] = ordinal
                    yield Site(Mutant(function, name, before, after, ordinal), path, replacement)


def _text(node: ast.AST) -> str:
    """Write a node in one line; of a statement with a body its head alone."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    if isinstance(node, ast.comprehension):
        return ast.unparse(node).strip()
    return " ".join(ast.unparse(node).split())


def all_sites(prefixes: tuple[str, ...] = ("",)) -> list[Site]:
    """List the mutants of all modules that may hold a name with one of these beginnings."""
    modules = [module for module in target_modules() if _may_hold(module.removeprefix("sfumato."), prefixes)]
    return [site for module in modules for site in sites(module)]


def _may_hold(module: str, prefixes: tuple[str, ...]) -> bool:
    return module.startswith(prefixes) or any(prefix.startswith(f"{module}:") for prefix in prefixes)


def mutated_function(site: Site, marker: str | None = None) -> FunctionNode:
    """Return a copy of the function with the change in it.

    A ``marker`` is called before the changed statement, so that a run can tell whether the change was reached.
    """
    function = site.mutant.function
    changed = copy.deepcopy(dict(functions(module_tree(function.module)))[function.qualname])
    parent: Any = changed
    block: tuple[list[ast.stmt], int] | None = None
    for field, index in site.path[:-1]:
        values = getattr(parent, field)
        if index is not None and isinstance(values[index], ast.stmt):
            block = (values, index)
        parent = values if index is None else values[index]
    field, index = site.path[-1]
    values = getattr(parent, field)
    if index is None:
        setattr(parent, field, ast.copy_location(copy.deepcopy(site.replacement), values))
    else:
        if isinstance(values[index], ast.stmt):
            block = (values, index)
        values[index] = ast.copy_location(copy.deepcopy(site.replacement), _located(values[index]))
    if marker is not None and block is not None:
        statements, place = block
        call = ast.Expr(ast.Call(ast.Name(marker, ast.Load()), [], []))
        statements.insert(place, ast.copy_location(call, statements[place]))
    return ast.fix_missing_locations(changed)


def mutated_module(site: Site, marker: str | None = None) -> ast.Module:
    """Return the module's tree with the change in it; whatever lies beside the function is shared with the original."""
    function = site.mutant.function
    tree = module_tree(function.module)
    original = dict(functions(tree))[function.qualname]
    return ast.Module(_exchanged(tree.body, original, mutated_function(site, marker)), tree.type_ignores)


def mutated_definition(site: Site, marker: str | None = None) -> ast.Module:
    """Return the changed function alone, in the classes that it stands in: a tenth of the time to compile a module."""
    function = site.mutant.function
    statement: ast.stmt = mutated_function(site, marker)
    body, around = module_tree(function.module).body, []
    for name in function.qualname.split(".")[:-1]:
        around.append(next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name))
        body = around[-1].body
    for node in reversed(around):
        outer = copy.copy(node)
        outer.body, statement = [statement], outer
    return ast.Module([*_future(function.module), statement], [])


def _future(module: str) -> list[ast.stmt]:
    body = module_tree(module).body
    return [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]


def _exchanged(body: list[ast.stmt], original: ast.stmt, changed: ast.stmt) -> list[ast.stmt]:
    return [changed if node is original else _in_class(node, original, changed) for node in body]


def _in_class(node: ast.stmt, original: ast.stmt, changed: ast.stmt) -> ast.stmt:
    if not isinstance(node, ast.ClassDef):
        return node
    copied = copy.copy(node)
    copied.body = _exchanged(node.body, original, changed)
    return copied


def _located(node: ast.AST) -> ast.AST:
    return node if hasattr(node, "lineno") else getattr(node, "target", node)
