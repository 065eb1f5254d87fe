"""A synopsis can be checked by anybody: the charge follows from its plan, and the promise from the charge.

What one unit can change of each block is computed again from the attributes, ρ = Σ Δ₂²/2σ² (or ε = Σ Δ₁/b) is added up
in exact fractions, and compared with what was promised. With an export of the ledger, the line is looked up by its
number and hash, and what it was charged for is compared. Nothing can show from outside that the noise was drawn as it
is stated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.ledger import Anchor, spending
from sfumato.ledger.spending import Charged
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.privacy import codec
from sfumato.publish.marginals.measuring import Published
from sfumato.publish.marginals.planning import Plan
from sfumato.release.answers.receipts import Receipt

UNSHOWN = "no check can show that the noise was drawn as stated, nor that the rows were those of the table"
_LONGEST = 1 << 30


@dataclass(frozen=True)
class Check:
    """A check says what was looked at, and whether it holds; None where it cannot be told."""

    name: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class SynopsisVerification:
    """This lists what was checked of a synopsis, and what cannot be."""

    checks: tuple[Check, ...]
    unshown: str = UNSHOWN

    @property
    def holds(self) -> bool:
        """Tell whether nothing that was checked is wrong."""
        return all(each.holds is not False for each in self.checks)

    def __str__(self) -> str:
        words = {True: "holds", False: "WRONG", None: "unknown"}
        width = max(len(each.name) for each in self.checks)
        lines = [f"{words[each.holds]:<7}  {each.name:<{width}}  {each.found}" for each in self.checks]
        return "\n".join([*lines, f"{'':<7}  {self.unshown}"])


def verify(
    releases: Sequence[tuple[Published, Receipt]], ledger: Anchor | str | os.PathLike[str] | None = None
) -> SynopsisVerification:
    """Check releases by themselves, or also against an export of the ledger (JSON) or an anchor of it."""
    checks = [check for each in releases for check in _checks(*each)]
    if ledger is not None:
        known = ledger if isinstance(ledger, Anchor) else _loaded(ledger)
        checks += [check for each in releases for check in _in_ledger(*each, known)]
    return SynopsisVerification(tuple(checks))


def parts(plan: Plan) -> tuple[Charged, ...]:
    """List what was run, on what one unit can change, as a charge is computed from it."""
    if plan.blocks:
        found = [Charged(Gaussian(each.deviation), plan.sensitivity(each)) for each in plan.blocks]
    else:
        found = [Charged(Laplace(each.scale), plan.sensitivity(each)) for each in plan.marginals]
    return spending.gathered(found)


def exact_cost(run: tuple[spending.Part, ...]) -> Fraction | None:
    """Add up ρ of Gaussian noise, or ε of Laplace noise, as a fraction; None where something else was run."""
    total = Fraction(0)
    for each in run:
        if not isinstance(each, Charged) or each.sensitivity is None:
            return None
        if isinstance(each.mechanism, Gaussian) and isinstance(each.mechanism.sigma, Fraction):
            total += each.times * each.sensitivity.squares / (2 * each.mechanism.sigma**2)
        elif isinstance(each.mechanism, Laplace) and isinstance(each.mechanism.scale, Fraction):
            total += each.times * each.sensitivity.total / each.mechanism.scale
        else:
            return None
    return total


def _checks(published: Published, receipt: Receipt) -> list[Check]:
    plan, price = published.plan, published.promise
    run = parts(plan)
    cost, stated = exact_cost(run), plan.rho if plan.blocks else plan.epsilon
    assert cost is not None
    unit = "ρ" if plan.blocks else "ε"
    kept = price.kept_by(spending.curve(run))
    same = receipt.guarantee == str(price) and published.purchase.price in ("", str(price))
    neighbours = receipt.neighbours == plan.neighbours.value
    return [
        Check("charge", cost <= stated, f"{unit} = {float(cost):.6g}, from {len(run):,} kinds of noise"),
        Check("promise", kept, f"{price} is {'kept' if kept else 'NOT kept'} by that charge"),
        Check("receipt", same, f"it promises {receipt.guarantee}"),
        Check("neighbours", neighbours, f"{receipt.neighbours}; the plan is for {plan.neighbours.value}"),
    ]


def _loaded(path: str | os.PathLike[str]) -> Anchor | dict[int, dict[str, Any]]:
    """Read an export of a ledger, or an anchor."""
    fix = 'give what "sfumato ledger export" wrote as JSON, or an anchor'
    try:
        if os.path.getsize(path) > _LONGEST:
            raise ValueError
        source = Path(path).read_text(encoding="utf-8")
        found = json.loads(source)
        if isinstance(found, dict):
            return codec.loads_as(Anchor, source)
        return {each["number"]: each for each in found}
    except (OSError, ValueError, TypeError, KeyError, RecursionError, InvalidParameter) as error:
        raise InvalidParameter("ledger", str(path), "an export of a ledger, or an anchor", fix=fix) from error


def step_cost(step: Charged, *, pure: bool) -> Fraction | None:
    """Compute what a step costs, as a fraction: ρ = Δ₂²/2σ² of noise and ε²/8 of a choice of bounded range, or where
    the price is pure ε = Δ₁/b and ε; None for anything else.
    """
    mechanism = step.mechanism
    if isinstance(mechanism, Exponential):
        return step.times * (mechanism.epsilon if pure else mechanism.epsilon**2 / 8)
    if isinstance(mechanism, Laplace if pure else Gaussian):
        return exact_cost((step,))
    return None


def line_checks(receipt: Receipt, ledger: Anchor | str | os.PathLike[str]) -> list[Check]:
    """Look up the line of a receipt in an export of the ledger, or in an anchor of it."""
    return _line(receipt, ledger if isinstance(ledger, Anchor) else _loaded(ledger))


def _line(receipt: Receipt, known: Anchor | dict[int, dict[str, Any]]) -> list[Check]:
    line, digest = receipt.line, receipt.hash
    if isinstance(known, Anchor):
        hashes = {known.number: known.hash, **dict(known.marks)}
        if line in hashes:
            return [Check("line", hashes[line] == digest, f"line {line} of the anchor")]
        return [Check("line", None, f"the anchor does not hold line {line}: give an export of the ledger")]
    row = known.get(line)
    if row is None or row.get("hash") != digest:
        return [Check("line", False, f"the ledger has no line {line} with this hash")]
    return [Check("line", True, f"line {line}, {digest[:16]}")]


def _in_ledger(published: Published, receipt: Receipt, known: Anchor | dict[int, dict[str, Any]]) -> list[Check]:
    found = _line(receipt, known)
    if isinstance(known, Anchor) or not found[0].holds:
        return found
    row = known[receipt.line]
    paid = known.get(row.get("about") or receipt.line, {})
    try:
        cost = exact_cost(spending.read(str(paid.get("parts") or "")))
    except (InvalidParameter, ValueError):
        cost = None
    wanted = exact_cost(parts(published.plan))
    said = "something that cannot be added up" if cost is None else f"{float(cost):.6g}"
    return [*found, Check("paid", cost == wanted, f"the line paid for {said}")]
