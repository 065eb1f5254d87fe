"""The command ``sfumato synthesize`` buys a model of a table once, and draws a synthetic table from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.output import ProgressLines, check_written

if TYPE_CHECKING:
    from sfumato.curator import Curator
    from sfumato.curator.proposals.synthesis import SynthesisProposal
    from sfumato.publish.synthetic import Synthetic


_asked = options.several(
    options.policy,
    click.argument("table"),
    click.option(
        "--method", type=click.Choice(["aim", "mst", "mwem", "independent"]), default="aim", show_default=True
    ),
    click.option("--ways", type=int, metavar="K", help="All sets of K columns are to be right.  [default: 3]"),
    click.option("--of", "sets", multiple=True, metavar="A,B", help="This set of columns instead; may be given again."),
    click.option("--columns", metavar="A,B", help="These columns alone.  [default: all, and each must have cells]"),
    click.option(
        "--weight", "weights", multiple=True, metavar="A=N", help="Column A counts N times; may be given again."
    ),
    click.option("--where", metavar="SQL", help="Only rows that meet this condition."),
    click.option("--rows", type=int, metavar="N", help="At most so many rows of one unit count."),
    click.option(
        "--order", metavar="COLUMN", help='One row of each unit counts: the first by this, or by "COLUMN DESC".'
    ),
    click.option("--memory", metavar="SIZE", default="1 GiB", show_default=True, help="What the model may take."),
)
_priced = options.several(
    click.option("--epsilon", metavar="NUMBER", help="The price of all steps together."),
    click.option("--delta", metavar="NUMBER", default="0", help="With --epsilon: (ε, δ)-private, Gaussian noise."),
    click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon."),
    click.option("--seconds", metavar="NUMBER", help="End after so long with the model so far; nothing is given back."),
    options.request_id,
)
_written = options.several(
    click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Where the rows go: .parquet or .csv."),
    click.option("--model", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Where the model goes, such as people.sfu: ask it, or draw from it again, for nothing."),
    click.option("--draw", metavar="N", help="How many rows are drawn.  [default: the noisy number of rows]"),
)  # fmt: skip


@click.command(short_help="Buy a model of a table, and draw synthetic rows.", epilog=EXIT_CODES)
@_asked
@_priced
@options.analyst
@options.ledger
@_written
@click.option("--explain", is_flag=True, help="Only say what would be done, step by step. Spends nothing.")
@click.option("--forecast", is_flag=True, help="Only say how long it takes, and how much memory. Spends nothing.")
@click.option("--dry-run", is_flag=True, help="Run all of it on invented rows: nothing is read, spent or written.")
@options.as_json
@click.option("--receipt", is_flag=True, help="Print the whole receipt.")
def command(policy: Path, analyst: str | None, ledger: Path | str | None, **given: Any) -> None:
    """Measure a model of one TABLE of POLICY, step by step, and draw a synthetic table from it.

    \b
    Examples:
      sfumato synthesize clinic.toml people --epsilon 1 --delta 1e-9 -o people.parquet --model people.sfu
      sfumato synthesize clinic.toml people --epsilon 1 --delta 1e-9 --dry-run
    """
    _check_together(given)
    output, model, wanted = given["output"], given["model"], options.rows(given["draw"])
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        check_written(curator.policy, ledger, output, model)
        proposal = _proposed(curator if analyst is None else curator.as_analyst(analyst), given)
        price = {name: given[name] for name in ("epsilon", "delta", "rho")}
        if given["explain"]:
            said = proposal.explain(**price)
            click.echo(said.to_json() if given["as_json"] else str(said))
        elif given["forecast"]:
            click.echo(f"{proposal.forecast(**price)}")
        elif given["dry_run"]:
            made = proposal.rehearse(**price, progress=progress)
            click.echo(f"{made!r}\n\n{_REHEARSED}")
        else:
            with progress.until_shown():
                how = {"seconds": given["seconds"], "request_id": given["request_id"]}
                made = proposal.release(**price, **how, progress=progress)
                _write(made, output, model, wanted, progress)
                _say(made, output, model, given["as_json"], given["receipt"])


def _check_together(given: Mapping[str, Any]) -> None:
    """Refuse what does not go together, and files that cannot be written."""
    if given["ways"] is not None and given["sets"]:
        raise click.UsageError("give --ways or --of, not both")
    if not given["explain"] and (given["epsilon"] is None) == (given["rho"] is None):
        raise click.UsageError("name one price: --epsilon 1 or --rho 0.01; there is no default")
    if not (given["explain"] or given["forecast"] or given["dry_run"]):
        _check_files(given["output"], given["model"])


def _proposed(curator: Curator, given: Mapping[str, Any]) -> SynthesisProposal:
    """Propose the model that is named."""
    asked = {name: given[name] for name in ("method", "where", "rows", "memory")}
    asked["columns"] = None if given["columns"] is None else _names(given["columns"])
    asked["weights"] = dict(map(_weight, given["weights"]))
    asked |= {} if given["order"] is None else {"one_row_per": "unit", "order": given["order"]}
    return curator.synthesize(
        given["table"], ways=[_names(each) for each in given["sets"]] or given["ways"] or 3, **asked
    )


_REHEARSED = "This was a model of invented rows. Nothing was spent, no row was read, and no file was written."


def _write(made: Synthetic, output: Path | None, model: Path | None, rows: int | None, progress: Any) -> None:
    """Write the model first: rows can be drawn from it again."""
    if model is not None:
        progress("writing the model")
        made.save(model)
    if output is not None:
        made.write(output, rows, progress)


def _say(made: Synthetic, output: Path | None, model: Path | None, as_json: bool, receipt: bool) -> None:
    if as_json:
        click.echo(made.receipt.to_json())
        return
    click.echo(f"{' and '.join(str(each) for each in (output, model) if each)}:\n{made!r}\n\n{made.quality()}")
    click.secho(f"\n{made.receipt if receipt else made.receipt.short()}", dim=True)


def _names(written: str) -> list[str]:
    return [each.strip() for each in written.split(",")]


def _weight(written: str) -> tuple[str, str]:
    name, sign, weight = written.rpartition("=")
    if not sign or not name:
        raise click.UsageError(f"write a weight as income=3, not {written}")
    return name.strip(), weight.strip()


def _check_files(output: Path | None, model: Path | None) -> None:
    """Refuse files that cannot be written before anything is spent."""
    if output is None and model is None:
        raise click.UsageError("name what to write: -o people.parquet for rows, --model people.sfu, or both")
    if output is not None:
        from sfumato.publish.synthetic import check_rows_file

        check_rows_file(output)
    for each in (output, model):
        if each is not None and not each.parent.is_dir():
            raise click.UsageError(f"there is no folder {each.parent}: make it, or name another")
