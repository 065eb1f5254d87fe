"""``sfumato audit``: search for evidence that a policy's curator violates its privacy guarantee.

``sfumato attack``: run known attacks on exact and private answers, on a policy's budget, or as a game.
"""

from __future__ import annotations

import inspect
import sys
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, REFUSED

if TYPE_CHECKING:
    from sfumato.attacks.game import GameRound, GuessingMatch
    from sfumato.audit.whole_policies.curator_findings import CuratorAudit

ATTACKS = {
    "differencing": "differencing",
    "suppression": "suppression",
    "refusals": "refusals",
    "averaging": "averaging",
    "reconstruction": "reconstruction",
    "census": "census",
    "linkage": "linkage",
    "membership": "membership",
    "membership-rows": "membership_of_rows",
    "attribute": "attribute",
    "attribute-rows": "attribute_of_rows",
}
"""The function in ``sfumato.attacks`` of each attack's name."""
_HELP = """count WHO    how many of these have the secret: count all, count north, count Ann Bob, count all but Ann
guess yes    or guess no: ends the round
help         show this list
quit         end the match; the remaining rounds count as wrong"""


@click.command(short_help="Run an attack by name, or all attacks on a policy's budget.", epilog=EXIT_CODES_HELP)
@click.argument("what", required=False, metavar="[NAME|POLICY]")
@click.option("--play", is_flag=True, help="Play the attacker: guess one person's secret from counts that you choose.")
@click.option(
    "--against",
    type=click.Choice(["exact", "rounded", "suppressed", "private"]),
    help="With --play: how the counts are answered.  [default: exact]",
)
@click.option("--rounds", type=int, help="With --play: the number of rounds.  [default: 10]")
@click.option("--epsilon", metavar="NUMBER", help="With NAME: the ε of the private answers under attack.  [default: 1]")
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    help="With NAME: the neighbouring relation of the guarantee.  [default: the attack's own]",
)
@click.option(
    "--column",
    multiple=True,
    metavar="TABLE.COLUMN",
    help="With POLICY: the secret column to guess. Repeatable.  [default: every column with bounds or at least two "
    "listed values]",
)
@click.option("--runs", type=int, help="With POLICY: how many times each attack guesses.  [default: 100]")
@click.option(
    "--minutes", metavar="NUMBER", help="With POLICY: start no new attack after this many minutes.  [default: 1]"
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With POLICY: also write the result as a web page, such as attack.html.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot the result with its theoretical bound to a .svg, .png or .html file.",
)
@options.as_json
def attack_command(
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
    """Run the attack NAME on exact, rounded and private answers about invented people; or measure what an analyst who
    spends the whole budget of POLICY could learn at most. No data are read, nothing is charged.

    \b
    Names:
      differencing, suppression, refusals, averaging, reconstruction, census,
      linkage, membership, membership-rows, attribute, attribute-rows
    With --neighbours: suppression, census, linkage, membership, membership-rows, attribute, attribute-rows

    \b
    Examples:
      sfumato attack differencing
      sfumato attack membership --epsilon 0.5 --plot curve.svg
      sfumato attack attribute --neighbours replace
      sfumato attack clinic.toml --html attack.html
      sfumato attack --play --against private
    """
    attack_options = {"epsilon": epsilon, "neighbours": neighbours}
    policy_options = {"column": column or None, "runs": runs, "minutes": minutes}
    if play:
        _refuse_options(what=what, **attack_options, **policy_options, html=html, plot=plot, json=as_json or None)
        _play_match(against or "exact", 10 if rounds is None else rounds)
        return
    if what is None:
        raise click.UsageError("name an attack or a policy, or give --play; sfumato attack --help lists the attacks")
    _refuse_options("--play", against=against, rounds=rounds)
    if plot is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(plot)
    if what in ATTACKS:
        _refuse_options("a POLICY", **policy_options, html=html)
        result = _attack_by_name(what, attack_options)
    else:
        _refuse_options("the NAME of an attack", **attack_options)
        result = _attack_policy(what, policy_options, html)
    if plot is not None:
        result.plot(plot)
    click.echo(result.to_json() if as_json else str(result))
    if html is not None and not as_json:
        click.echo(f"Written: {html}, a self-contained page.")
    if not result.holds:
        raise click.exceptions.Exit(1)


def _refuse_options(beside: str = "", /, **values: object) -> None:
    """Refuse options that belong to another form of the command (``beside``), or to none."""
    for name, value in values.items():
        if value is not None:
            flag = "NAME or POLICY" if name == "what" else f"--{name}"
            rule = f"it can only be used with {beside}" if beside else "it cannot be combined with --play"
            raise click.UsageError(f"leave out {flag}: {rule}")


def _attack_by_name(name: str, values: dict[str, Any]) -> Any:
    """Run an attack by its name, with those options that were given."""
    from sfumato import attacks

    attack = getattr(attacks, ATTACKS[name])
    parameters = inspect.signature(attack).parameters
    for option, value in values.items():
        if value is not None and option not in parameters:
            raise click.UsageError(f"leave out --{option}: the attack {name} does not have this option")
    return attack(**{option: value for option, value in values.items() if value is not None})


def _attack_policy(what: str, values: dict[str, Any], html: Path | None) -> Any:
    from sfumato import attacks
    from sfumato.cli.common.output import check_output_files
    from sfumato.errors import SfumatoError
    from sfumato.policy import read

    if not Path(what).exists() and Path(what).suffix.lower() != ".toml":
        close_matches = get_close_matches(what.lower(), ATTACKS, n=1)
        suggestion = f"; did you mean {close_matches[0]}?" if close_matches else ""
        raise click.UsageError(f"{what} is neither an attack ({', '.join(ATTACKS)}) nor a file{suggestion}")
    policy = read(Path(what))
    if html is not None:
        if html.suffix.lower() not in (".html", ".htm") or not html.parent.is_dir():
            raise SfumatoError(
                "the page must be an .html file in an existing folder",
                place=str(html),
                fix="name another file, such as attack.html",
            )
        check_output_files(policy, None, html)
    result = attacks.policy(policy, **{option: value for option, value in values.items() if value is not None})
    if html is not None:
        result.page().save(html)
    return result


# ── the game ───────────────────────────────────────────────────────────────────────────────────


def _play_match(against: str, rounds: int) -> None:
    from sfumato.attacks.game import NAMES, WARDS, WORDS, GuessingMatch, start_round, ward_of

    match = GuessingMatch(against, rounds)
    click.echo(
        f"There are {len(NAMES)} people, and each has the secret with probability ½. Answers are {WORDS[against]}."
    )
    for ward_name in WARDS:
        click.echo(
            f"  {ward_name}: {', '.join(name for person, name in enumerate(NAMES) if ward_of(person) == ward_name)}"
        )
    click.echo(f"{rounds} rounds, each with new secrets.\n{_HELP}")
    while match.played < rounds:
        with start_round(against) as current:
            click.echo(f"\nRound {match.played + 1} of {rounds}: does {NAMES[current.target]} have the secret?")
            right = _play_round(current)
        if right is None:
            break
        match = match.after_round(right)
        click.echo("Right." if right else f"Wrong: {NAMES[current.target]} {_secret_words(current)}.")
    _print_score(match)


def _secret_words(current: GameRound) -> str:
    return "has it" if current.secret[current.target] else "does not have the secret"


def _play_round(current: GameRound) -> bool | None:
    """Read commands until a guess; return whether it is right, or None if the player quits."""
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
            return current.is_correct(words == ["yes"])
        if verb != "count":
            click.echo(_HELP)
            continue
        try:
            count = current.ask(words)
        except Overspent:
            click.echo("The budget of this round is spent: make your guess.")
        except SfumatoError as refusal:
            click.echo(refusal.rule)
        else:
            click.echo("withheld: fewer than 5" if count is None else f"{count:,.0f}")


def _print_score(match: GuessingMatch) -> None:
    click.echo("")
    click.echo(click.wrap_text(match.score(), 100))


_PIPE_SECONDS = 10.0
"""Seconds between two phases that are printed to a file or a pipe, such as the log of a nightly audit."""
_PIPE_WIDTH = 100
"""The width of the table in a pipe or a file, in characters: the remarks on a question are long."""


@click.command(short_help="Test a policy's privacy guarantee on invented tables.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--minutes", metavar="N", default="5", show_default=True, help="Stop after about N minutes.")
@click.option(
    "--questions", type=click.Path(path_type=Path), metavar="FILE", help="Audit the questions of this .sql file first."
)
@click.option(
    "--seed", metavar="N", type=int, help="The seed that an earlier audit printed, to ask its random questions again."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the result as a web page.",
)
@options.as_json
def audit_command(
    policy: Path, minutes: str, questions: Path | None, seed: int | None, html: Path | None, as_json: bool
) -> None:
    """Search for evidence that POLICY's answers reveal more about a person than its guarantee allows.

    The audit invents neighbouring tables from the policy, with a unit at, below and beyond every limit. It asks them
    questions of every kind, and random ones from the grammar of supported SQL, and compares exact changes, noise and
    whole releases. It also plants faults, and reports a lack of power if it misses one. After the first
    questions it estimates how many there is time for. Your data are not read and your budget is not spent. The exit
    code is 1 if there is any doubt.

    \b
    Examples:
      sfumato audit clinic.toml
      sfumato audit clinic.toml --minutes 30 --html audit.html
      sfumato audit clinic.toml --questions ours.sql
      sfumato audit clinic.toml --seed 3141592653
      sfumato audit clinic.toml --json
    """
    from sfumato.audit.whole_policies.curator_audits import curator
    from sfumato.audit.whole_policies.curator_findings import page
    from sfumato.cli.common.output import ProgressPrinter, check_output_files
    from sfumato.curator.policy_account import read_policy

    parsed_policy = read_policy(policy)
    if html is not None:
        check_output_files(parsed_policy, None, html)
    announce = partial(click.echo, err=True)
    with ProgressPrinter(pipe_seconds=_PIPE_SECONDS) as progress:
        result = curator(parsed_policy, minutes, questions, seed=seed, progress=progress, announce=announce)
    if html is not None:
        page(result).save(html)
    if as_json:
        click.echo(result.to_json())
    else:
        _print_audit(result)
        if html is not None:
            click.echo(f"Written: {html}, a self-contained page.")
    if not result.holds:
        sys.exit(REFUSED)


def _print_audit(result: CuratorAudit) -> None:
    """Print the tests, the planted faults and every doubt."""
    from sfumato.audit.whole_policies.curator_findings import COLUMNS, result_row
    from sfumato.cli.common.output import print_table

    print_table(COLUMNS, [result_row(test) for test in result.tried], pipe_width=_PIPE_WIDTH)
    click.echo()
    print_table(
        ("planted fault", "result"), [(fault.name, "caught" if fault.caught else "MISSED") for fault in result.faults]
    )
    click.echo()
    for note in (*result.notes, *filter(None, [result.seed_summary])):
        click.echo(note)
    for doubt in result.doubts:
        click.secho(doubt, fg="red")
    click.echo(str(result))
