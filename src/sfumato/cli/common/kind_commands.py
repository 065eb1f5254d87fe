"""Commands generated from a release kind: the fields of its spec and the terms of its price.

Required fields become arguments, the others options. A field is a text, a number, a flag, a choice or a list of texts;
a kind with any other field has a hand-written command, and declares it in its ``refusal_by_skin``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.output import ProgressPrinter
from sfumato.curator.release_kinds import ReleaseKind, SpecField, field_form, spec_fields
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

_OMITTED_TERMS = ("within", "fresh")
"""Terms without an option: a command names its price, and a stored answer is free."""


def build_command(kind: ReleaseKind) -> click.Command:
    """Generate the click command of a release kind."""

    def callback(**values: Any) -> None:
        _run_kind(kind, values)

    fields = spec_fields(kind.spec)
    arguments = [_argument(field) for field in fields if field.required]
    field_options = [
        _option(field.name, field.annotation, field.default, field.help) for field in fields if not field.required
    ]
    can_name_rho = any(term.name == "rho" for term in kind.terms)
    terms = [
        _term_option(term.name, term.annotation, term.help, required=term.name == "epsilon" and not can_name_rho)
        for term in kind.terms
        if term.name not in _OMITTED_TERMS
    ]
    command = click.Command(
        kind.name,
        callback=callback,
        params=[*arguments, *terms, *field_options],
        help=f"{kind.spec.__doc__}\n\n\b\nExample:\n  {example_command_line(kind)}",
        short_help=f"{kind.summary}.",
        epilog=EXIT_CODES_HELP,
    )
    plot = [options.plot] if hasattr(kind.answer_class(), "plot") else []
    for shared in (options.analyst, options.ledger, options.request_id, _explain_option, options.as_json, *plot):
        command = shared(command)
    command.params.insert(0, click.Argument(["policy"], type=click.Path()))
    return command


_explain_option = click.option(
    "--explain",
    "--dry-run",
    is_flag=True,
    help="Only print the steps, the price and the expected error. Spends nothing.",
)


def example_command_line(kind: ReleaseKind) -> str:
    """Return an example command line, from the example of the kind."""
    words = ["sfumato", kind.name, "policy.toml"]
    for field in spec_fields(kind.spec):
        value = getattr(kind.example, field.name)
        if field.required:
            words += [_quoted(value)] if isinstance(value, str) else map(str, value)
        elif value != field.default:
            words += [
                f"{_flag(field.name)} {_quoted(str(option_value))}"
                for option_value in ([value] if isinstance(value, str | int) else value)
            ]
    return " ".join([*words, "--epsilon 0.5", *(["--delta 1e-6"] if kind.needs_delta else [])])


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _run_kind(kind: ReleaseKind, values: dict[str, Any]) -> None:
    from sfumato.curator import Curator

    policy, ledger, analyst = (values.pop(name) for name in ("policy", "ledger", "analyst"))
    explain, as_json, request_id = (values.pop(name) for name in ("explain", "as_json", "request_id"))
    plot = values.pop("plot", None)
    if plot is not None:
        from sfumato.plots import check_picture_path

        if explain:
            raise click.UsageError("leave out --plot: --explain has no answer to plot")
        check_picture_path(plot)
    terms = {term.name: value for term in kind.terms if (value := values.pop(term.name, None)) is not None}
    spec = kind.spec(**{name: value for name, value in values.items() if value is not None})
    with ProgressPrinter() as progress, Curator(policy, ledger, progress=progress) as curator:
        proposal = (curator if analyst is None else curator.as_analyst(analyst)).propose(spec)
        if explain:
            explanation = proposal.explain(**terms)
            click.echo(explanation.to_json() if as_json else str(explanation))
            return
        with progress.exit_on_interrupt():
            answer = proposal.release(**terms, request_id=request_id)
            progress("showing")
            _show_answer(answer, as_json)
            if plot is not None:
                answer.plot(str(plot))


def _show_answer(answer: Any, as_json: bool) -> None:
    """Print an answer: rows as a table, anything else as its text."""
    if as_json:
        click.echo(answer.to_json())
        return
    if hasattr(answer, "cells"):
        from sfumato.cli.common.output import print_table
        from sfumato.release.answers.answer import Answer

        print_table(answer.columns, answer.cells(), answer.intervals)
        if isinstance(answer, Answer):
            for note in (*answer.ranked(), *answer.warnings):
                click.echo(note)
    else:
        click.echo(str(answer))
    if answer.receipt is not None:
        click.secho(f"\n{answer.receipt.short()}", dim=True)


def _argument(field: SpecField) -> click.Argument:
    settings = _click_settings(field.annotation)
    if settings.get("is_flag"):
        raise TypeError(f"{field.name} is a required flag: give it a default")
    repeatable = settings.pop("multiple", False)
    return click.Argument([field.name], nargs=-1 if repeatable else 1, required=True, type=settings.get("type"))


def _term_option(name: str, annotation: Any, help_text: str, *, required: bool) -> click.Option:
    default = DEFAULT_CONFIDENCE if name == "confidence" else None
    option = _option(name, annotation, default, help_text)
    option.required = required
    return option


def _option(name: str, annotation: Any, default: Any, help_text: str) -> click.Option:
    settings = _click_settings(annotation)
    show_default = default not in (None, False, ())
    if "multiple" in settings:
        help_text = f"{help_text} May be repeated."
    elif default is None and "is_flag" not in settings:
        settings |= {"multiple": True, "callback": _single_value}  # click would keep the last one, without a word
    return click.Option([_flag(name), name], default=default, show_default=show_default, help=help_text, **settings)


def _single_value(context: click.Context, option: click.Parameter, values: tuple[Any, ...]) -> Any:
    if len(values) > 1:
        raise click.BadParameter("give it once", context, option)
    return values[0] if values else None


def _flag(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


def _click_settings(annotation: Any) -> dict[str, Any]:
    """Return the click settings for a field of this type."""
    form = field_form(annotation)
    settings_by_form: Mapping[str, dict[str, Any]] = {
        "text": {"metavar": "TEXT"},
        "number": {"metavar": "NUMBER"},
        "count": {"type": int},
        "flag": {"is_flag": True},
        "choice": {"type": click.Choice(form.choices)},
        "list": {"metavar": "TEXT", "multiple": True},
    }
    return dict(settings_by_form[form.name])
