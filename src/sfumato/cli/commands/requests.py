"""``sfumato requests``: ask for approval of a release at a server, and decide on what others ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.output import print_table

if TYPE_CHECKING:
    from sfumato.client.remote_proposals import RemoteRequests
    from sfumato.curator.request_views import RequestView

_server = click.option(
    "--server",
    required=True,
    metavar="URL",
    help="The address of the server (https://… or unix:/path); the token is the one saved by sfumato login.",
)
_policy = click.argument("policy")
_number = click.argument("number", type=int)
_purpose = click.option("--purpose", required=True, metavar="TEXT", help="What the answer is for.")


@click.group(short_help="Ask a server's owners to approve a release, or decide on it.", epilog=EXIT_CODES_HELP)
def requests_command() -> None:
    """Ask for approval of a release at a server, and decide on what others ask for.

    A policy says under [approval] which releases wait for an owner. POLICY is the name of a policy at the server.

    \b
    Examples:
      sfumato requests file clinic "SELECT COUNT(*) FROM visits" --epsilon 0.5 --purpose "annual report" --server URL
      sfumato requests list clinic --server URL
      sfumato requests approve clinic 12 --server URL
      sfumato requests refuse clinic 12 --reason "too fine" --server URL
      sfumato requests release clinic 12 --server URL
      sfumato requests publish clinic 14 17 --purpose "annual report" --server URL
      sfumato requests grant clinic ana --epsilon 0.5 --days 30 --purpose drafts --server URL
    """


@contextmanager
def _requests(server: str, policy: str) -> Iterator[tuple[Any, RemoteRequests]]:
    from sfumato.client import connect

    with connect(server, policy) as curator:
        yield curator, curator.requests


def _print_request(view: RequestView, as_json: bool) -> None:
    click.echo(view.to_json() if as_json else str(view))


@requests_command.command(epilog=EXIT_CODES_HELP)
@_policy
@click.argument("sql", required=False)
@click.option("--kind", metavar="NAME", help="The kind of release, such as marginals, if it is not a question in SQL.")
@click.option("--spec", metavar="JSON", help="With --kind: what is released, as JSON.")
@click.option("--epsilon", metavar="NUMBER", help="The price of the release: its privacy loss ε.")
@click.option("--delta", metavar="NUMBER", help="With --epsilon: the δ of the price.")
@click.option("--rho", metavar="NUMBER", help="The price in ρ instead of --epsilon.")
@click.option("--within", metavar="NUMBER", help="Accuracy instead of price: every number within ± NUMBER.")
@_purpose
@click.option("--days", type=int, help="How many days the request stays open.  [default: as the policy says]")
@_server
@options.as_json
def file(
    policy: str,
    sql: str | None,
    kind: str | None,
    spec: str | None,
    purpose: str,
    days: int | None,
    server: str,
    as_json: bool,
    **price: str | None,
) -> None:
    """File a request for a release: a question in SQL, or any other kind with --kind and --spec. Free."""
    if (sql is None) is (kind is None) or (kind is None) is not (spec is None):
        raise click.UsageError("give a question in SQL, or --kind with --spec")
    from sfumato.client.remote_proposals import RemoteProposal

    terms = {name: term for name, term in price.items() if term is not None}
    with _requests(server, policy) as (curator, requests):
        if kind is None:
            proposal = curator.sql(sql)
        else:
            proposal = RemoteProposal.propose(curator.policy_connection, kind, _parse_spec(spec or ""))
        _print_request(requests.file(proposal, purpose=purpose, days=days, **terms), as_json)


def _parse_spec(text: str) -> dict[str, Any]:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        spec = None
    if not isinstance(spec, dict):
        raise click.UsageError('--spec must be a JSON object, such as {"table": "visits", "ways": 2}')
    return spec


@requests_command.command("list", epilog=EXIT_CODES_HELP)
@_policy
@_server
@options.as_json
def list_requests(policy: str, server: str, as_json: bool) -> None:
    """List the requests that you may see, newest first: analysts see their own."""
    with _requests(server, policy) as (_, requests):
        views = requests.list()
    if as_json:
        click.echo(json.dumps([json.loads(view.to_json()) for view in views], ensure_ascii=False))
    elif views:
        rows = [
            (str(view.number), view.state, view.requester, view.filed, view.epsilon_words, view.purpose)
            for view in views
        ]
        print_table(("number", "state", "by", "filed", "counts with", "purpose"), rows)
    else:
        click.echo("There are no requests.")


@requests_command.command(epilog=EXIT_CODES_HELP)
@_policy
@_number
@_server
@options.as_json
def show(policy: str, number: int, server: str, as_json: bool) -> None:
    """Show request NUMBER: what is asked, its cost, what is left after it, and what it reveals about one person."""
    with _requests(server, policy) as (_, requests):
        view = requests.show(number)
    _print_request(view, as_json)
    if not as_json and view.one_person:
        from sfumato.curator.request_views import OUTSIDE_THE_PROMISE

        click.echo(f"{view.one_person}\n{OUTSIDE_THE_PROMISE}")


_NOTE = {"default": "", "help": "A note, recorded permanently in the ledger."}
_REASON = {"required": True, "help": "The reason, recorded permanently in the ledger."}


def _step_command(step: str, reason_option: dict[str, Any], doc: str) -> None:
    """Add the command of one step of a request, which takes a reason."""

    @requests_command.command(step, help=doc, epilog=EXIT_CODES_HELP)
    @_policy
    @_number
    @click.option("--reason", metavar="TEXT", **reason_option)
    @_server
    @options.as_json
    def take_step(policy: str, number: int, reason: str, server: str, as_json: bool) -> None:
        with _requests(server, policy) as (_, requests):
            _print_request(getattr(requests, step)(number, reason), as_json)


_step_command("approve", _NOTE, "Approve request NUMBER of somebody else. For owners.")
_step_command(
    "refuse",
    _REASON,
    "Refuse request NUMBER, or take back an approval that was not yet used. For owners.\n\nDecide from what "
    "`show` prints alone: a refusal decided after looking at the data is not covered by the privacy guarantee.",
)
_step_command("withdraw", _NOTE, "Withdraw your own request NUMBER.")


@requests_command.command(epilog=EXIT_CODES_HELP)
@_policy
@_number
@options.request_id
@_server
@options.as_json
def release(policy: str, number: int, request_id: str | None, server: str, as_json: bool) -> None:
    """Release what was approved under NUMBER, exactly as it was filed. It is charged."""
    with _requests(server, policy) as (_, requests):
        answer = requests.release(number, request_id=request_id)
    click.echo(answer.to_json() if as_json else str(answer))


@requests_command.command(epilog=EXIT_CODES_HELP)
@_policy
@click.argument("lines", type=int, nargs=-1, required=True)
@_purpose
@_server
@options.as_json
def publish(policy: str, lines: tuple[int, ...], purpose: str, server: str, as_json: bool) -> None:
    """Mark your answers on these ledger LINES for publication; once approved, sfumato bundle --reviewed signs them."""
    with _requests(server, policy) as (_, requests):
        _print_request(requests.publish(lines, purpose=purpose), as_json)


@requests_command.command(epilog=EXIT_CODES_HELP)
@_policy
@click.argument("user")
@click.option(
    "--epsilon", required=True, metavar="NUMBER", help="The total ε that all releases under this grant may cost."
)
@click.option("--days", type=int, help="The number of days that the grant is valid.")
@click.option(
    "--until", metavar="DATE", help="Instead of --days: the last day of the grant in UTC, such as 2027-06-30."
)
@click.option(
    "--table", "tables", multiple=True, metavar="NAME", help="A table that may be read. Repeatable.  [default: all]"
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="NAME",
    help="A kind of release that is allowed. Repeatable.  [default: all]",
)
@click.option(
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="What may be computed from rows: count (counts only), sum, rank, distinct or frequent. Repeatable.  "
    "[default: all]",
)
@_purpose
@_server
@options.as_json
def grant(
    policy: str,
    user: str,
    epsilon: str,
    days: int | None,
    until: str | None,
    tables: tuple[str, ...],
    kinds: tuple[str, ...],
    measures: tuple[str, ...],
    purpose: str,
    server: str,
    as_json: bool,
) -> None:
    """Approve releases of USER in advance, up to a total ε and until a date. For owners."""
    if (days is None) is (until is None):
        raise click.UsageError("give --days or --until, and not both")
    with _requests(server, policy) as (_, requests):
        limits = {"tables": tables, "kinds": kinds, "measures": measures}
        view = requests.grant(user, epsilon=epsilon, days=days, until=until, purpose=purpose, **limits)
    _print_request(view, as_json)
