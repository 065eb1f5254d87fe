"""An analyst sees the same of a question whoever is in the table, but for its noise: this puts down what they see.

Whether it is refused, in which words, what it is said to cost and how wrong it will be, which columns and rows an
answer has, what was charged, and what was written down: none of it may depend on a row. Only numbers that were drawn
may differ, and keys that were found in the data, whose selection is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sfumato.audit.invented_tables.neighbouring_tables import Population
from sfumato.curator import Curator, Question
from sfumato.errors import SfumatoError

_MOMENTARY = ("time", "hash", "line", "remaining", "data")
"""Of a receipt: when and where it was written down, and which data, which differ between tables by their nature."""

Ask = Callable[[Curator], Any]
"""This makes the same proposal at any curator."""
Outcome = dict[str, str]
"""What is seen, by what it is."""


@dataclass(frozen=True)
class Difference:
    """A difference is something that an analyst sees in one table and not in its neighbour."""

    what: str
    first: Population
    second: Population
    seen: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.what} differs between {self.first} and {self.second}"


def outcome(curator: Curator, asked: str | Ask, price: Mapping[str, Any]) -> Outcome:
    """Ask a question once, and put down everything about it that is not drawn."""
    before, (last, _) = curator.budget.remaining, curator.ledger.head
    seen: Outcome = {}
    try:
        question: Any = put(asked, curator)
        seen |= _answered(question, question.release(**price))
    except SfumatoError as refused:
        seen["refusal"] = f"{type(refused).__name__} {getattr(refused, 'code', '')} {refused}"
    after = curator.budget.remaining
    seen["charge"] = repr({name: before[name] - after[name] for name in before if name in after})
    seen["ledger"] = repr([(line.kind, line.question, line.plan) for line in curator.history(after=last)])
    return seen


def forecast(curator: Curator, asked: str | Ask, price: Mapping[str, Any]) -> Outcome:
    """Put down what is said of a question before it is asked: how it is understood, its cost, and its error."""
    paid = {name: each for name, each in price.items() if name != "fresh"}
    try:
        question: Any = put(asked, curator)
        if not isinstance(question, Question) or question.free:
            return {}
        return {"explanation": str(question.explain(**paid)), "forecast": str(question.error(**paid, fresh=True))}
    except SfumatoError as refused:
        return {"refusal beforehand": str(refused)}


def put(asked: str | Ask, curator: Curator) -> Any:
    """Put a question to a curator: a text, or what makes the same proposal at any curator."""
    return curator.sql(asked) if isinstance(asked, str) else asked(curator)


def _answered(question: Any, answer: Any) -> Outcome:
    receipt = {each.name: getattr(answer.receipt, each.name) for each in fields(answer.receipt)}
    seen = {
        "columns": repr((answer.columns, answer.types, answer.keys)),
        "receipt": repr({name: each for name, each in receipt.items() if name not in _MOMENTARY}),
        "warnings": repr(answer.warnings) if not question.found else "",
    }
    if not _drawn_keys(question):
        places = [answer.columns.index(each) for each in answer.keys]
        seen["groups"] = repr([tuple(row[each] for each in places) for row in answer.rows])
    return seen


def _drawn_keys(question: Question) -> bool:
    """Tell whether what was drawn decides which rows are shown, or in which order."""
    finish, words = question.query.finish, question.text.upper()
    return (
        bool(question.found or question.query.outer)
        or any(each in words for each in ("HAVING", "ORDER", "LIMIT", "QUALIFY", "FETCH", "OFFSET", "OVER"))
        or bool(finish.windows)
    )


def differences(outcomes: Sequence[tuple[Population, Outcome]]) -> tuple[Difference, ...]:
    """List what is not the same in every table, each compared with the first of them."""
    (first, expected), *others = outcomes
    found = []
    for other, seen in others:
        for what in dict.fromkeys([*expected, *seen]):
            pair = expected.get(what, "nothing"), seen.get(what, "nothing")
            if pair[0] != pair[1]:
                found.append(Difference(what, first, other, pair))
    return tuple(found)
