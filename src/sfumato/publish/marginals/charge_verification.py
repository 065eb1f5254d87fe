"""Verify a synopsis from outside: the charge follows from its plan, and the promise from the charge.

What one unit can change of each block is computed again from the attributes, ρ = Σ Δ₂²/2σ² (or ε = Σ Δ₁/b) is added up
in exact fractions, and compared with what was promised. With an export of the ledger, the line is looked up by its
number and hash, and what it was charged for is compared. Nothing can show from outside that the noise was drawn as it
is stated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.ledger import Anchor, spending
from sfumato.ledger.spending import Charged
from sfumato.mechanisms import Exponential, Gaussian, Laplace, Quantiles
from sfumato.privacy import codec
from sfumato.publish.marginals.measuring import PublishedMarginals
from sfumato.publish.marginals.planning import NoisePlan
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt

UNSHOWN = "no check can show that the noise was drawn as stated, nor that the rows were those of the table"
_MAX_FILE_BYTES = 1 << 30


@dataclass(frozen=True)
class Check:
    """One check, and whether it holds; None if that is unknown."""

    name: str
    holds: bool | None
    finding: str


@dataclass(frozen=True)
class SynopsisVerification:
    """What was checked of a synopsis, and what cannot be."""

    checks: tuple[Check, ...]
    unshown: str = UNSHOWN

    @property
    def holds(self) -> bool:
        """Whether nothing that was checked is wrong."""
        return all(check.holds is not False for check in self.checks)

    def __str__(self) -> str:
        words = {True: "holds", False: "WRONG", None: "unknown"}
        width = max(len(check.name) for check in self.checks)
        lines = [f"{words[check.holds]:<7}  {check.name:<{width}}  {check.finding}" for check in self.checks]
        return "\n".join([*lines, f"{'':<7}  {self.unshown}"])


def verify(
    releases: Sequence[tuple[PublishedMarginals, Receipt]], ledger: Anchor | str | os.PathLike[str] | None = None
) -> SynopsisVerification:
    """Verify releases by themselves, or also against an export of the ledger (JSON) or an anchor of it."""
    checks = [check for release in releases for check in _check_release(*release)]
    if ledger is not None:
        ledger_lines = ledger if isinstance(ledger, Anchor) else _load_ledger(ledger)
        checks += [check for release in releases for check in _check_payment(*release, ledger_lines)]
    return SynopsisVerification(tuple(checks))


def charged_mechanisms(plan: NoisePlan) -> tuple[Charged, ...]:
    """Return the mechanisms that were run, each with the sensitivity that its charge is computed from."""
    if plan.blocks:
        charges = [Charged(Gaussian(planned.deviation), plan.sensitivity(planned)) for planned in plan.blocks]
    else:
        charges = [Charged(Laplace(planned.scale), plan.sensitivity(planned)) for planned in plan.marginals]
    return spending.merge_equal_parts(charges)


def exact_cost(run: tuple[spending.Part, ...]) -> Fraction | None:
    """Add up ρ of Gaussian noise, or ε of Laplace noise, as a fraction; None if something else was run."""
    total = Fraction(0)
    for part in run:
        if not isinstance(part, Charged) or part.sensitivity is None:
            return None
        if isinstance(part.mechanism, Gaussian) and isinstance(part.mechanism.sigma, Fraction):
            total += part.times * part.sensitivity.squares / (2 * part.mechanism.sigma**2)
        elif isinstance(part.mechanism, Laplace) and isinstance(part.mechanism.scale, Fraction):
            total += part.times * part.sensitivity.total / part.mechanism.scale
        else:
            return None
    return total


def _check_release(published: PublishedMarginals, receipt: Receipt) -> list[Check]:
    plan, price = published.plan, published.price_or_plan_cost
    run = charged_mechanisms(plan)
    cost, stated = exact_cost(run), plan.rho if plan.blocks else plan.epsilon
    assert cost is not None
    unit = "ρ" if plan.blocks else "ε"
    is_kept = price.is_satisfied_by(spending.compose_parts(run))
    is_same_price = receipt.guarantee == str(price) and published.purchase.price in ("", str(price))
    are_same_neighbours = receipt.neighbours == plan.neighbours.value
    return [
        Check("charge", cost <= stated, f"{unit} = {float(cost):.6g}, from {len(run):,} kinds of noise"),
        Check("promise", is_kept, f"{price} is {'kept' if is_kept else 'NOT kept'} by that charge"),
        Check("receipt", is_same_price, f"it promises {receipt.guarantee}"),
        Check("neighbours", are_same_neighbours, f"{receipt.neighbours}; the plan is for {plan.neighbours.value}"),
    ]


def _load_ledger(path: str | os.PathLike[str]) -> Anchor | dict[int, dict[str, Any]]:
    """Read an export of a ledger, or an anchor."""
    fix = 'pass the JSON file that "sfumato ledger export" wrote, or an anchor of the ledger'
    try:
        if os.path.getsize(path) > _MAX_FILE_BYTES:
            raise ValueError
        source = Path(path).read_text(encoding="utf-8")
        decoded = json.loads(source)
        if isinstance(decoded, dict):
            return codec.loads_as(Anchor, source)
        return {line["number"]: line for line in decoded}
    except (OSError, ValueError, TypeError, KeyError, RecursionError, InvalidParameter) as error:
        raise InvalidParameter("ledger", str(path), "a JSON export or an anchor of a ledger", fix=fix) from error


def step_cost(step: Charged, *, pure: bool) -> Fraction | None:
    """Compute what a step costs, as a fraction: ρ = Δ₂²/2σ² of noise and ε²/8 of a choice of bounded range, such as
    each level of quantiles, or where the price is pure ε = Δ₁/b and ε; None for anything else.
    """
    mechanism = step.mechanism
    if type(mechanism) is Quantiles:
        rho = mechanism.levels * mechanism.level_epsilon**2 / 8
        return step.times * (mechanism.epsilon if pure else rho)
    if isinstance(mechanism, Exponential):
        return step.times * (mechanism.epsilon if pure else mechanism.epsilon**2 / 8)
    if isinstance(mechanism, Laplace if pure else Gaussian):
        return exact_cost((step,))
    return None


def line_checks(receipt: Receipt, ledger: Anchor | str | os.PathLike[str]) -> list[Check]:
    """Look up the line of a receipt in an export of the ledger, or in an anchor of it."""
    return _check_line(receipt, ledger if isinstance(ledger, Anchor) else _load_ledger(ledger))


def _check_line(receipt: Receipt, ledger_lines: Anchor | dict[int, dict[str, Any]]) -> list[Check]:
    line, digest = receipt.line, receipt.hash
    if isinstance(ledger_lines, Anchor):
        hashes = {ledger_lines.number: ledger_lines.hash, **dict(ledger_lines.marks)}
        if line in hashes:
            return [Check("line", hashes[line] == digest, f"line {line} of the anchor")]
        return [Check("line", None, f"the anchor does not cover line {line}; give an export of the ledger instead")]
    row = ledger_lines.get(line)
    if row is None or row.get("hash") != digest:
        return [Check("line", False, f"the ledger has no line {line} with this hash")]
    return [Check("line", True, f"line {line}, {digest[:16]}")]


def _check_payment(
    published: PublishedMarginals, receipt: Receipt, ledger_lines: Anchor | dict[int, dict[str, Any]]
) -> list[Check]:
    checks = _check_line(receipt, ledger_lines)
    if isinstance(ledger_lines, Anchor) or not checks[0].holds:
        return checks
    row = ledger_lines[receipt.line]
    charge_line = ledger_lines.get(row.get("about") or receipt.line, {})
    try:
        cost = exact_cost(spending.read_parts(str(charge_line.get("parts") or "")))
    except (InvalidParameter, ValueError):
        cost = None
    expected_cost = exact_cost(charged_mechanisms(published.plan))
    cost_text = "a price that cannot be added up" if cost is None else f"{float(cost):.6g}"
    return [*checks, Check("paid", cost == expected_cost, f"the line paid for {cost_text}")]
