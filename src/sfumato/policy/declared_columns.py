"""Parse the declarations of a table's columns: domains, lists, codings and cell rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.cell_rules import RULE_KEYS, CellRules, parse_rules
from sfumato.policy.codings import Coding, leaves, parse_coding
from sfumato.policy.domains import Domain, ListColumn, check_distinct_names, check_keys, check_name, common_type

T = TypeVar("T")
_CODING_KEYS = ("bins", "levels", "spikes")
_DOMAIN_KEYS = ("type", "bounds", "values", "grid", "nullable", "max_length", "other", "most_items")
_COLUMN_KEYS = (*_DOMAIN_KEYS, *_CODING_KEYS, *RULE_KEYS)


def with_policy_path(place: str, make: Callable[[], T]) -> T:
    """Return ``make()``; turn an InvalidParameter into an InvalidPolicy with the path in the policy."""
    try:
        return make()
    except InvalidParameter as refusal:
        rule, path, fix = refusal.rule, f"{place}.{refusal.parameter}", refusal.fix
    raise InvalidPolicy(rule, place=path, fix=fix)


def parse_columns(columns: object, place: str) -> dict[str, Domain | ListColumn]:
    if not isinstance(columns, Mapping):
        raise InvalidPolicy(
            "columns must be a section with one key per column",
            place=place,
            fix='for example, write age = { type = "integer", bounds = [0, 110] }',
        )
    for column in columns:
        check_name(column, "a column", f"{place}.{column}")
    check_distinct_names(columns, place)
    return {name: _parse_domain(value, f"{place}.{name}") for name, value in columns.items()}


def _parse_domain(value: object, place: str) -> Domain | ListColumn:
    if isinstance(value, (Domain, ListColumn)):
        return value
    if not isinstance(value, Mapping):
        raise InvalidPolicy("a column needs a type", place=place, fix='write { type = "text" }')
    check_keys(value, _COLUMN_KEYS, place)
    domain_keys = _domain_keys(value)
    most_items = domain_keys.pop("most_items", None)
    if most_items is not None and any(name in value for name in _CODING_KEYS):
        raise InvalidPolicy(
            "a column with most_items holds lists, and cannot have bins, levels or spikes",
            place=f"{place}.most_items",
            fix="remove bins, levels and spikes",
        )
    kind = domain_keys.pop("type", None) or common_type(domain_keys.get("values"))
    if kind is None:
        raise InvalidPolicy(
            "a column needs a type, or listed values of one type",
            place=f"{place}.type",
            fix='add type = "integer", or "real", "text", "boolean", "date", "timestamp"',
        )
    domain = with_policy_path(place, lambda: Domain(kind, **domain_keys))
    return domain if most_items is None else with_policy_path(place, lambda: ListColumn(domain, most_items))


def _domain_keys(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of a column without its coding keys; nested levels also list its values."""
    domain_keys = {name: value for name, value in declaration.items() if name in _DOMAIN_KEYS}
    levels = declaration.get("levels")
    if (
        "values" not in domain_keys
        and "bounds" not in domain_keys
        and "bins" not in declaration
        and _is_nested_values(levels)
    ):
        domain_keys["values"] = leaves(levels)
    return domain_keys


def _is_nested_values(levels: object) -> bool:
    """Return whether levels are nested values, not edges or periods."""
    return isinstance(levels, Mapping) or (
        isinstance(levels, (list, tuple)) and bool(levels) and all(isinstance(item, (list, tuple)) for item in levels)
    )


def parse_codings(columns: object, declared: object, place: str) -> dict[str, Coding]:
    """Parse the codings of columns declared with bins, levels or spikes, and add those given as ``Coding``."""
    codings = dict(declared) if isinstance(declared, Mapping) else {}
    for name, declaration in columns.items() if isinstance(columns, Mapping) else ():
        if isinstance(declaration, Mapping) and any(key in declaration for key in _CODING_KEYS):
            domain = _parse_domain(declaration, f"{place}.{name}")
            assert isinstance(domain, Domain)
            cells = [declaration.get(key) for key in _CODING_KEYS]
            codings[name] = with_policy_path(f"{place}.{name}", lambda d=domain, c=cells: parse_coding(d, *c))  # type: ignore[misc]
    return codings


def declared_rules(columns: object, given: object) -> dict[str, Any]:
    """Return the cell rules of columns as they are declared: among the keys of a column, or by themselves."""
    rules = dict(given) if isinstance(given, Mapping) else {}
    for name, declaration in columns.items() if isinstance(columns, Mapping) else ():
        if isinstance(declaration, Mapping) and any(key in declaration for key in RULE_KEYS):
            rules[name] = {key: declaration[key] for key in RULE_KEYS if key in declaration}
    return rules


def parse_column_rules(
    declared: Mapping[str, Any], columns: Mapping[str, Domain], lists: Mapping[str, ListColumn], place: str
) -> dict[str, CellRules]:
    """Parse the cell rules of a table's columns; refuse those of a list or of a column that is not declared."""
    parsed: dict[str, CellRules] = {}
    for name, rules in declared.items():
        path = f"{place}.{name}"
        if not isinstance(rules, (CellRules, Mapping)):
            raise InvalidPolicy(
                "cell rules must be a mapping of keys to values",
                place=path,
                fix='write {"format": "%d.%m.%Y"}, or remove the rules of this column',
            )
        if name in lists:
            keys = _rule_keys(rules)
            names = ", ".join(keys)
            raise InvalidPolicy(f"{names} cannot be set for a list column", place=path, fix=f"remove {names}")
        if name not in columns:
            raise InvalidPolicy(
                "cell rules can only be set for a declared column", place=path, fix=f"declare {name} in columns"
            )
        column_rules = with_policy_path(path, lambda d=columns[name], r=rules: parse_rules(_rule_keys(r), d))  # type: ignore[misc]
        parsed |= {name: column_rules} if column_rules != CellRules() else {}
    return parsed


def _rule_keys(rules: CellRules | Mapping[str, Any]) -> Mapping[str, Any]:
    return rules.keys if isinstance(rules, CellRules) else rules
