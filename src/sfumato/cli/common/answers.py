"""Answers from a synopsis are printed as a table, as JSON or as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sfumato.release.answers.answer import Answer


def show(answer: Answer, *, as_json: bool, as_csv: bool, receipt: bool = False) -> None:
    """Print an answer, with the lines of its receipt that everybody should read, or all of them."""
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        from sfumato.cli.common.text_tables import show as show_table

        show_table(answer.columns, answer.cells(), answer.intervals)
        click.secho(f"\n{answer.receipt if receipt else answer.receipt.short()}", dim=True)
