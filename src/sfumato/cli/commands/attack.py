"""The command ``sfumato attack`` shows what can be learnt of one person: by an attack, of a policy, or as a game."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES

if TYPE_CHECKING:
    from sfumato.attacks.game import GameRound, GuessingMatch

ATTACKS = {
    "differencing": "differencing",
    "suppression": "suppression",
    "averaging": "averaging",
    "reconstruction": "reconstruction",
    "census": "census",
    "linkage": "linkage",
    "membership": "membership",
    "membership-rows": "membership_of_rows",
    "attribute": "attribute",
    "attribute-rows": "attribute_of_rows",
}
"""What each attack is called here, and its function."""
_HELP = """count WHO    how many of them have it: count all, count north, count Ann Bob, count all but Ann
guess yes    or guess no: ends the round
help         this
quit         ends the match; rounds that are left count as wrong"""


@click.command(short_help="Try attacks: one by name, or all that a policy's budget allows.", epilog=EXIT_CODES)
@click.argument("what", required=False, metavar="[NAME|POLICY]")
@click.option("--play", is_flag=True, help="Play a game: guess one person's secret from counts that you choose.")
@click.option(
    "--against",
    type=click.Choice(["exact", "rounded", "suppressed", "private"]),
    help="With --play: who answers.  [default: exact]",
)
@click.option("--rounds", type=int, help="With --play: how many rounds, fixed before the first.  [default: 10]")
@click.option("--epsilon", metavar="NUMBER", help="With NAME: the price of the private answers.  [default: 1]")
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    help="With NAME, where it says: which tables the price is for.  [default: as the attack has it]",
)
@click.option(
    "--column",
    multiple=True,
    metavar="TABLE.COLUMN",
    help="With POLICY: a secret, or several.  [default: every column with two values or a range]",
)
@click.option("--runs", type=int, help="With POLICY: how many guesses of each kind.  [default: 100]")
@click.option("--minutes", metavar="NUMBER", help="With POLICY: when no more is begun.  [default: 1]")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With POLICY: write a page to take to a lawyer, such as attack.html.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw what was found under theory's ceiling: .svg, .png or .html.",
)
@options.as_json
def command(
    what: str | None,
    play: bool,
    against: str | None,
    rounds: int | None,
    epsilon: str | None,
    neighbours: str | None,
    column: tuple[str, ...],
    runs: int | None,
    minutes: str | None,
    html: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Attack exact, coarse and private answers about invented people, by NAME; or ask what an analyst with the whole
    budget of POLICY could find out at most. No data are read and nothing is charged.

    \b
    Names:
      differencing, suppression, averaging, reconstruction, census, linkage,
      membership, membership-rows, attribute, attribute-rows
    With --neighbours: suppression, census, linkage, membership, membership-rows, attribute, attribute-rows

    \b
    Examples:
      sfumato attack differencing
      sfumato attack membership --epsilon 0.5 --plot curve.svg
      sfumato attack attribute --neighbours replace
      sfumato attack clinic.toml --html attack.html
      sfumato attack --play --against private
    """
    named = {"epsilon": epsilon, "neighbours": neighbours}
    owned = {"column": column or None, "runs": runs, "minutes": minutes}
    if play:
        _refuse(what=what, **named, **owned, html=html, plot=plot, json=as_json or None)
        _play(against or "exact", 10 if rounds is None else rounds)
        return
    if what is None:
        raise click.UsageError("name an attack or a policy, or give --play; sfumato attack --help lists them")
    _refuse("--play", against=against, rounds=rounds)
    if plot is not None:
        from sfumato.plots import check_picture

        check_picture(plot)
    if what in ATTACKS:
        _refuse("a policy", **owned, html=html)
        found = _named(what, named)
    else:
        _refuse("the name of an attack", **named)
        found = _policy(what, owned, html)
    if plot is not None:
        found.plot(plot)
    click.echo(found.to_json() if as_json else str(found))
    if html is not None and not as_json:
        click.echo(f"Written: {html}, a page that needs nothing else.")
    if not found.holds:
        raise click.exceptions.Exit(1)


def _refuse(beside: str = "", /, **given: object) -> None:
    """Refuse what belongs to another way to attack."""
    for name, value in given.items():
        if value is not None:
            flag = "NAME or POLICY" if name == "what" else f"--{name}"
            rule = f"{flag} belongs to {beside}" if beside else f"{flag} has no part in the game"
            raise click.UsageError(f"{rule}: leave it out")


def _named(name: str, given: dict[str, Any]) -> Any:
    """Run an attack by its name, with what was given of its price."""
    from sfumato import attacks

    attack = getattr(attacks, ATTACKS[name])
    taken = inspect.signature(attack).parameters
    for each, value in given.items():
        if value is not None and each not in taken:
            raise click.UsageError(f"{name} has no --{each}: leave it out")
    return attack(**{each: value for each, value in given.items() if value is not None})


def _policy(what: str, given: dict[str, Any], html: Path | None) -> Any:
    from sfumato import attacks
    from sfumato.cli.common.output import check_written
    from sfumato.errors import SfumatoError
    from sfumato.policy import read

    if not Path(what).exists() and Path(what).suffix.lower() != ".toml":
        near = get_close_matches(what.lower(), ATTACKS, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise click.UsageError(f"{what} is neither an attack ({', '.join(ATTACKS)}) nor a file{meant}")
    declared = read(Path(what))
    if html is not None:
        if html.suffix.lower() not in (".html", ".htm") or not html.parent.is_dir():
            raise SfumatoError(
                "a page is written as .html, into a folder that is there", place=str(html), fix="name another file"
            )
        check_written(declared, None, html)
    found = attacks.policy(declared, **{each: value for each, value in given.items() if value is not None})
    if html is not None:
        found.page().save(html)
    return found


# ── the game ───────────────────────────────────────────────────────────────────────────────────


def _play(against: str, rounds: int) -> None:
    from sfumato.attacks.game import NAMES, WARDS, WORDS, GuessingMatch, begun, ward

    match = GuessingMatch(against, rounds)
    click.echo(f"{len(NAMES)} people, and each has a secret with probability ½. Answers are {WORDS[against]}.")
    for own in WARDS:
        click.echo(f"  {own}: {', '.join(name for place, name in enumerate(NAMES) if ward(place) == own)}")
    click.echo(f"{rounds} rounds, each with new secrets.\n{_HELP}")
    while match.played < rounds:
        with begun(against) as current:
            click.echo(f"\nRound {match.played + 1} of {rounds}: does {NAMES[current.target]} have it?")
            right = _round(current)
        if right is None:
            break
        match = match.after(right)
        click.echo("Right." if right else f"Wrong: {NAMES[current.target]} {_has(current)}.")
    _end(match)


def _has(current: GameRound) -> str:
    return "has it" if current.secret[current.target] else "does not have it"


def _round(current: GameRound) -> bool | None:
    """Take commands until there is a guess, and tell whether it is right; None where the player quits."""
    from sfumato.errors import Overspent, SfumatoError

    while True:
        try:
            typed = click.prompt("", prompt_suffix="> ", default="", show_default=False)
        except click.Abort:
            return None
        verb, *words = typed.split() or [""]
        if verb in ("quit", "exit"):
            return None
        if verb == "guess" and words in (["yes"], ["no"]):
            return current.right(words == ["yes"])
        if verb != "count":
            click.echo(_HELP)
            continue
        try:
            told = current.ask(words)
        except Overspent:
            click.echo("The budget of this round is spent: guess.")
        except SfumatoError as refused:
            click.echo(refused.rule)
        else:
            click.echo("withheld: fewer than 5" if told is None else f"{told:,.0f}")


def _end(match: GuessingMatch) -> None:
    click.echo("")
    click.echo(click.wrap_text(match.score(), 100))
