"""Rewrite the texts of cells by the rules of their column, so that grammars read them: one text by itself, and total.

A rule turns a text into the text that a grammar reads, or into NULL where it does not fit; no rule converts a value, so
whether a day exists, and what a number means, is decided where every cell is read. The same scalars are written for
every engine. Parts of a text are taken before it is known to match, so each operation here is total on every text.
"""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.engine.lowering.applications import missing
from sfumato.engine.lowering.relational import Constant, Scalar, ScalarFunction, apply
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.written_dates import iso_text
from sfumato.plan.values.written_forms import (
    SPACES,
    number_pattern,
)
from sfumato.policy import Type
from sfumato.policy.cell_rules import CellRules


def rewrites(rules: CellRules, kind: Type) -> bool:
    """Return whether rules rewrite the texts of a column of this type; ``nulls`` alone rewrite none."""
    if kind.temporal:
        return bool(rules.format)
    if kind.numeric:
        return bool(rules.decimal or rules.thousands or rules.currency)
    return bool(rules.true or rules.false) if kind is Type.BOOLEAN else bool(rules.trim or rules.case or rules.map)


def rewritten(rows: RowLowering, text: Scalar, rules: CellRules, kind: Type) -> Scalar:
    """Rewrite a text of at most ``LONGEST`` bytes as the grammar of its type reads it; NULL where no rule fits."""
    if kind.temporal:
        return iso_text(rows, text, rules.format)
    if kind.numeric:
        return _number(text, rules)
    return _truth(text, rules) if kind is Type.BOOLEAN else _listed_text(rows, text, rules)


def is_listed(text: Scalar, words: Iterable[str]) -> Scalar:
    """Test whether a text is one of these words, apart from the spaces around it."""
    trimmed = apply(ScalarFunction.TRIM, text, detail=(" ", True, True))
    return apply(ScalarFunction.IN, trimmed, *map(_text, words))


def _text(value: str) -> Constant:
    return Constant(value, Type.TEXT)


def _matches(text: Scalar, pattern: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, text, detail=(pattern,))


# Numbers, truths and listed texts


def _number(text: Scalar, rules: CellRules) -> Scalar:
    """Write a number with a decimal point, without its currency and separators."""
    digits = text
    removed = (rules.currency, *SPACES, "" if rules.thousands == " " else rules.thousands)
    for part in filter(None, removed):
        digits = apply(ScalarFunction.REPLACE, digits, _text(part), _text(""))
    if rules.decimal == ",":
        digits = apply(ScalarFunction.REPLACE, digits, _text(","), _text("."))
    return apply(ScalarFunction.CASE, _matches(text, number_pattern(rules)), digits, missing(Type.TEXT))


def _truth(text: Scalar, rules: CellRules) -> Scalar:
    words = ((rules.true, "true"), (rules.false, "false"))
    pairs = [scalar for entries, truth in words if entries for scalar in (is_listed(text, entries), _text(truth))]
    return apply(ScalarFunction.CASE, *pairs, text)


def _listed_text(rows: RowLowering, text: Scalar, rules: CellRules) -> Scalar:
    """Trim a text, turn its letters and replace it, in this order; a target of ``map`` stays."""
    trimmed = rows.shared(apply(ScalarFunction.TRIM, text, detail=(" ", True, True))) if rules.trim else text
    folded = trimmed
    if rules.case:
        change_case = ScalarFunction.LOWER if rules.case == "lower" else ScalarFunction.UPPER
        folded = rows.shared(apply(change_case, trimmed))
    sources: dict[str, list[str]] = {}
    for source, target in rules.map:
        sources.setdefault(target, []).append(source)
    pairs = [
        scalar
        for target, texts in sources.items()
        for scalar in (apply(ScalarFunction.IN, folded, *map(_text, texts)), _text(target))
    ]
    turned = [target for target in sources if rules.fold(target) != target]
    kept = [apply(ScalarFunction.IN, trimmed, *map(_text, turned)), trimmed] if turned else []
    return apply(ScalarFunction.CASE, *kept, *pairs, folded) if pairs else folded
