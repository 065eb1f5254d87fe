"""The command of a kind of release, made of the fields of its spec and the terms of its price.

Required fields are arguments, the others options. A field is a text, a number, a flag, a choice or a list of texts;
a kind with any other field has a command written by hand, and says so in its ``skins``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.output import ProgressLines
from sfumato.curator.release_kinds import ReleaseKind, SpecField, field_form, spec_fields

_NEVER_ASKED = ("within", "fresh")
"""Terms that a command has no use for: it releases, and what is stored is free."""


def command_for(kind: ReleaseKind) -> click.Command:
    """Make the command of a kind."""

    def callback(**given: Any) -> None:
        _run(kind, given)

    fields = spec_fields(kind.spec)
    arguments = [_argument(field) for field in fields if field.required]
    given = [_option(field.name, field.annotation, field.default, field.help) for field in fields if not field.required]
    terms = [_term(term.name, term.annotation, term.help) for term in kind.terms if term.name not in _NEVER_ASKED]
    command = click.Command(
        kind.name,
        callback=callback,
        params=[*arguments, *terms, *given],
        help=f"{kind.spec.__doc__}\n\n\b\nExample:\n  {example(kind)}",
        short_help=f"{kind.summary}.",
        epilog=EXIT_CODES,
    )
    for shared in (options.analyst, options.ledger, options.request_id, _explain, options.as_json):
        command = shared(command)
    command.params.insert(0, click.Argument(["policy"], type=click.Path()))
    return command


_explain = click.option(
    "--explain", "--dry-run", is_flag=True, help="Only say what would happen, at what price, how wrong. Spends nothing."
)


def example(kind: ReleaseKind) -> str:
    """Write a call of the command, from the kind's example."""
    words = ["sfumato", kind.name, "policy.toml"]
    for field in spec_fields(kind.spec):
        value = getattr(kind.example, field.name)
        if field.required:
            words += [value] if isinstance(value, str) else map(str, value)
        elif value != field.default:
            words += [f"{_flag(field.name)} {each}" for each in ([value] if isinstance(value, str | int) else value)]
    return " ".join([*words, "--epsilon 0.5"])


def _run(kind: ReleaseKind, given: dict[str, Any]) -> None:
    from sfumato.curator import Curator

    policy, ledger, analyst = (given.pop(name) for name in ("policy", "ledger", "analyst"))
    explain, as_json, request_id = (given.pop(name) for name in ("explain", "as_json", "request_id"))
    terms = {term.name: value for term in kind.terms if (value := given.pop(term.name, None)) is not None}
    spec = kind.spec(**{name: value for name, value in given.items() if value is not None})
    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        proposal = (curator if analyst is None else curator.as_analyst(analyst)).propose(spec)
        if explain:
            said = proposal.explain(**terms)
            click.echo(said.to_json() if as_json else str(said))
            return
        with progress.until_shown():
            answer = proposal.release(**terms, request_id=request_id)
            progress("showing")
            _show(answer, as_json)


def _show(answer: Any, as_json: bool) -> None:
    """Print what was released: rows as a table, anything else as it writes itself."""
    if as_json:
        click.echo(answer.to_json())
        return
    if hasattr(answer, "cells"):
        from sfumato.cli.common.output import show

        show(answer.columns, answer.cells(), answer.intervals)
    else:
        click.echo(str(answer))
    if answer.receipt is not None:
        click.secho(f"\n{answer.receipt.short()}", dim=True)


def _argument(field: SpecField) -> click.Argument:
    settings = _settings(field.annotation)
    if settings.get("is_flag"):
        raise TypeError(f"{field.name} is a flag, and required: give it a default")
    several = settings.pop("multiple", False)
    return click.Argument([field.name], nargs=-1 if several else 1, required=True, type=settings.get("type"))


def _term(name: str, annotation: Any, text: str) -> click.Option:
    default = "0.95" if name == "confidence" else None
    found = _option(name, annotation, default, text)
    found.required = name == "epsilon"
    return found


def _option(name: str, annotation: Any, default: Any, text: str) -> click.Option:
    settings = _settings(annotation)
    shown = default not in (None, False, ())
    return click.Option([_flag(name), name], default=default, show_default=shown, help=text, **settings)


def _flag(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


def _settings(annotation: Any) -> dict[str, Any]:
    """Say how click reads a field of this type."""
    form = field_form(annotation)
    plain: Mapping[str, dict[str, Any]] = {
        "text": {"metavar": "TEXT"},
        "number": {"metavar": "NUMBER"},
        "count": {"type": int},
        "flag": {"is_flag": True},
        "choice": {"type": click.Choice(form.choices)},
        "list": {"metavar": "TEXT", "multiple": True},
    }
    return dict(plain[form.name])
