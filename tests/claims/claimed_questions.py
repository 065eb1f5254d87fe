"""What a question claims, in numbers: its boundings, its noise at a price, its exact totals, the rows it releases."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from claims.recorded import Claim
from mechanisms.recorded import keyed
from sfumato.curator import Question
from sfumato.engine.lowering.reading_statements import reading_statement, server_statement
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals, GroupTotals, PlanReading
from sfumato.policy import Domain
from sfumato.privacy import Sensitivity, codec
from sfumato.release.answers.answer import Answer
from sfumato.release.pricing import PricedRelease
from sfumato.release.releasing import StoredResult

SAMPLING_KEY = 7
"""Decides which rows a sample keeps."""
_TIME = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

Claims = dict[str, Claim]


@dataclass(frozen=True)
class TitledQuestion:
    section: str
    title: str
    text: str


def titled_questions() -> Iterator[TitledQuestion]:
    """Read ``questions.sql``: blocks of a title and a question; a block of a ``#`` title alone begins a section."""
    section = ""
    blocks = Path(__file__).with_name("questions.sql").read_text(encoding="utf-8").split("\n\n")[1:]
    for block in blocks:
        title, _, text = block.strip().removeprefix("-- ").partition("\n")
        if title.startswith("#"):
            section = title.removeprefix("# ")
        else:
            yield TitledQuestion(section, title, text)


def bounding_claims(question: Question) -> Claims:
    """Name what one unit can change under every sound strategy, and what an engine adds up for it."""
    claims: Claims = {"groups": _listed(question.groups), "found": question.discovered_keys}
    plans = [*((each.strategy.value, each) for each in question.bounding_options)]
    plans += [(f"beside {place}", each.bounded) for place, each in enumerate(question.other_parts)]
    for name, bounded in plans:
        claims |= {f"{name} {part}": claim for part, claim in _bounded(bounded).items()}
    outputs = question.query.outputs
    claims["columns"] = tuple(f"{each.name} {_domain(each.expression.domain)}" for each in outputs)
    return claims


def _bounded(bounded: BoundedPlan) -> Claims:
    limits = bounded.limits
    claims: Claims = {"limits": (limits.rows, limits.groups, limits.rows_per_group), "finds": bounded.discovers_groups}
    claims["keys"] = tuple(_domain(each.domain) for each in bounded.plan.keys)
    if not all(hasattr(each, "row_value_range_in_steps") for each in bounded.plan.measures):
        return claims
    for place, each in enumerate(bounded.measures):
        claims[f"{place} steps"] = (
            each.step,
            each.low,
            each.high,
            each.bits,
            each.size,
            *each.middle_row_contributions,
        )
        claims[f"{place} sensitivity"] = (*_norms(each.sensitivity), *_norms(each.add_remove_sensitivity))
    return claims


def _norms(change: Sensitivity) -> tuple[Claim, ...]:
    return change.l0, change.l1, change.squares, change.linf, change.neighbours.value


def _domain(domain: Domain) -> str:
    """Write what is declared or derived of a column in one line."""
    ends = "" if domain.bounds is None else f" {domain.bounds[0]}..{domain.bounds[1]}"
    values = "" if domain.values is None else f" {len(domain.values)} values"
    grid = "" if domain.grid is None else f" grid {domain.grid}"
    return f"{domain.type.value}{ends}{values}{grid}{' or NULL' * domain.nullable}"


def noise_claims(prepared: PricedRelease) -> Claims:
    """Name the noise of a release, what it is charged for, and how wide its ranges are."""
    return {
        "price": str(prepared.price),
        "idle": bool(prepared.unused_delta_reason),
        "strategy": tuple(each.strategy.value for each in prepared.measured_plans),
        "shares": tuple(tuple(part) for part in prepared.split.shares),
        "charged": tuple(map(_written, prepared.batch.charged)),
        "widths": prepared.half_widths(),
        "widths together": prepared.half_widths("0.9", 3),
    }


def _written(value: object) -> str:
    return json.dumps(json.loads(codec.dumps(value)), separators=(",", ":"), ensure_ascii=False)


def statement_claims(question: Question) -> Claims:
    """Name a hash of the statement that reads exact totals, for every sound strategy."""
    claims: Claims = {}
    for bounded in (each for each in question.bounding_options if each.measures):
        claims[f"{bounded.strategy.value} statement"] = _statement_hash(_reading(question, bounded))
    for place, part in enumerate(question.other_parts):
        beside = part.reading(() if question.discovered_keys else question.groups)
        claims[f"beside {place} statement"] = _statement_hash(beside)
    return claims


def total_claims(question: Question, place: int) -> Claims:
    """Name the exact totals that are read under one of the sound strategies."""
    measured = [each for each in question.bounding_options if each.measures]
    if not measured:
        return {}
    bounded = measured[place % len(measured)]
    reading = _reading(question, bounded)
    return {f"{bounded.strategy.value} totals": _totals(_read(question, reading), reading)}


def _reading(question: Question, bounded: BoundedPlan) -> GroupTotals | DiscoveredTotals:
    if question.discovered_keys:
        return DiscoveredTotals(bounded, question.discovered_keys, question.groups)
    return GroupTotals(bounded, question.groups)


def _read(question: Question, reading: PlanReading[Any]) -> Any:
    return question._context.engine.read(reading, SAMPLING_KEY)


def _totals(found: Any, reading: GroupTotals | DiscoveredTotals) -> Claim:
    if not isinstance(found, DiscoveredGroups):
        return _numbers(found)
    assert isinstance(reading, DiscoveredTotals)
    places = np.arange(len(found.holders))
    rows = zip(found.key_values(places), found.holders.tolist(), strict=True)
    totals = found.totals_for(places, len(reading.declared_groups)).reshape(len(places), -1).tolist()
    listed = sorted(((*map(str, key), held, *own) for (key, held), own in zip(rows, totals, strict=True)), key=repr)
    return tuple(tuple(each) for each in listed)


def _numbers(found: Any) -> Claim:
    return tuple(tuple(row) for row in np.atleast_2d(found).tolist())


def _statement_hash(reading: PlanReading[Any]) -> str:
    """Return a hash of the SQL for DuckDB and of the one that counts on a server."""
    made = [make(reading, SAMPLING_KEY) for make in (reading_statement, server_statement)]
    texts = [Generator(DuckDBSpelling(), lambda table: table.name).statement(each) for each in made]
    return " ".join(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts)


def release_claims(question: Question, prepared: PricedRelease, name: str, *, joint: bool = False) -> Claims:
    """Name the rows that are released under noise that the name decides, with their ranges."""
    kind = question.release_strategy(prepared)
    with keyed(name):
        measured = kind.draw(lambda reading: _read(question, reading))
        rehearsal = kind.result_at_extreme_totals()
    shown = question.build_answer(StoredResult(measured, 1, _TIME, "", free=False), "0.95", joint)
    return {
        "good enough": tuple(f"{what} {float(number):.12g}" for what, number in kind.accuracy_for_reuse.items()),
        "rehearsal": tuple(rehearsal.columns),
        "read by": tuple(_written(each) for each in measured.results),
        **_answered(shown),
    }


def _answered(answer: Answer) -> Claims:
    ranges = {name: _listed(each) for name, each in answer.intervals.items()}
    return {
        "rows": _listed(answer.rows),
        **{f"range of {name}": each for name, each in ranges.items()},
        "ranks": tuple(f"{name} {rank}" for name, rank in answer.ranks.items()),
        "chosen": tuple(f"{name} {words}" for name, words in answer.chosen.items()),
    }


def _listed(rows: Iterable[Any]) -> Claim:
    return tuple(None if row is None else tuple(map(_cell, row)) for row in rows)


def _cell(value: Any) -> Claim:
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return tuple(map(_cell, value))
    return value


def with_prefix(prefix: str, claims: Mapping[str, Claim]) -> Claims:
    return {f"{prefix}: {name}": claim for name, claim in claims.items()}
