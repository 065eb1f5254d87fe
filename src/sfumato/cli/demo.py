"""A guided look at a privacy-loss curve in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from sfumato.errors import Overspent
from sfumato.privacy import Budget, Curve, Guarantee, compose, odometer, reading

_WIDTH = 44
_EIGHTHS = " ▏▎▍▌▋▊▉"


def tour(*, pause: bool) -> None:
    """Every part in turn; each is a few lines of the library and what they print."""
    for number, part in enumerate(_PARTS, start=1):
        title, _, rest = (part.__doc__ or "").partition("\n")
        click.secho(f"\n{number}. {title}", bold=True)
        click.echo("\n".join(f"   {line.strip()}".rstrip() for line in rest.strip().splitlines()) + "\n")
        part()
        if pause and number < len(_PARTS):
            click.pause("\n   … press any key")
    click.echo("\nNext: README.md for the tour in Python, docs/ for every theorem. Run ./test to check all of it here.")


def bar(value: float, most: float, width: int = _WIDTH) -> str:
    """A horizontal bar in eighths of a character."""
    eighths = round(8 * width * min(1.0, max(0.0, value / most)))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _bars(rows: Sequence[tuple[str, float]], show: Callable[[float], str]) -> None:
    most = max(value for _, value in rows)
    for label, value in rows:
        click.echo(f"   {label:>14}  {bar(value, most):<{_WIDTH}}  {show(value)}")


def _one_release() -> None:
    """What one noisy count leaks
    A count of patients plus Laplace noise of scale 2. For any ε, δ is how much probability
    the promise e^ε leaves uncovered: the curve falls, and from ε = 0.5 on it is zero.
    """
    curve = Curve.laplace(scale=2)
    _bars([(f"ε = {e}", curve.delta(e)) for e in ("0", "0.1", "0.2", "0.3", "0.4", "0.5")], lambda d: f"δ = {d:.4f}")


def _for_one_person() -> None:
    """What that means for one person
    Whatever an attacker already knows, the answer moves their belief at most this far:
    """
    click.echo("\n".join(f"   {line}" for line in str(reading(Guarantee("0.5"))).splitlines()))


def _many_releases() -> None:
    """Many answers together
    500 Laplace and 500 Gaussian answers, all of different noise, at δ = 1e-6. Adding up the ε
    is safe and far too pessimistic; composing the curves gives certified bounds on the truth.
    """
    scales = [f"{100 + i / 5}" for i in range(500)]
    gaussian = [Curve.gaussian(scale) for scale in scales]
    laplace = [Curve.laplace(scale) for scale in scales]
    low, high = compose([*laplace, *gaussian]).epsilon_range("1e-6")
    added = sum(curve.epsilon(0) for curve in laplace) + sum(curve.epsilon("1e-9") for curve in gaussian)
    _bars([("added up", added), ("composed", high)], lambda e: f"ε = {e:.6f}")
    click.echo(f"\n   certified: {low:.9f} ≤ ε ≤ {high:.9f}")


def _two_lines() -> None:
    """Planned in advance, or chosen along the way
    Tight composition is true only if the parameters were fixed beforehand. An analyst who reacts to
    answers needs the other line, which holds at every moment at once.
    """
    click.echo("\n".join(f"   {line}" for line in str(odometer([(Curve.gaussian(30), 1)] * 60, "1e-6")).splitlines()))


def _an_account() -> None:
    """An account that refuses
    ε = 1 for life, spent in tenths: ten fit exactly, the eleventh is refused before anything is read.
    """
    account, spent = Budget(1), 0
    try:
        while True:
            account, spent = account.charge(Curve.laplace(10)), spent + 1
    except Overspent as refusal:
        click.echo(f"   {spent} releases of ε = 0.1 accepted; the next one:\n")
        click.secho("\n".join(f"   {line}" for line in str(refusal).splitlines()), fg="yellow")


_PARTS = (_one_release, _for_one_person, _many_releases, _two_lines, _an_account)
