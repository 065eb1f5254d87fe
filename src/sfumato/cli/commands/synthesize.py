"""``sfumato synthesize`` buys a model of a table, and ``sample`` draws rows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, print_warning
from sfumato.cli.common.output import ProgressPrinter, check_output_files

if TYPE_CHECKING:
    from sfumato.curator import Curator
    from sfumato.curator.proposals.synthesis import SynthesisProposal
    from sfumato.publish.synthetic import Synthetic


_model_options = options.combine_decorators(
    options.policy,
    click.argument("table", required=False),
    click.option(
        "--method",
        type=click.Choice(["aim", "mst", "mwem", "independent"]),
        default="aim",
        show_default=True,
        help="The algorithm that selects and fits the marginals.",
    ),
    click.option("--ways", type=int, metavar="K", help="Aim for accuracy on all sets of K columns.  [default: 3]"),
    click.option(
        "--of",
        "sets",
        multiple=True,
        metavar="A,B",
        help="Aim for accuracy on this set of columns, instead of --ways. Repeatable.",
    ),
    click.option("--columns", metavar="A,B", help="Use only these columns, each with values or bins.  [default: all]"),
    click.option(
        "--weight",
        "weights",
        multiple=True,
        metavar="A=N",
        help="The weight N of column A: the higher, the more accurate A is, at the expense of other columns, which "
        "have the weight 1. Repeatable.",
    ),
    click.option(
        "--target",
        metavar="COLUMN",
        help="The column that you will predict from the others; its pairs with them are measured first.",
    ),
    click.option("--where", metavar="SQL", help="Use only rows that meet this SQL condition."),
    click.option("--rows", type=int, metavar="N", help="Use at most N rows per unit."),
    click.option(
        "--order",
        metavar="COLUMN",
        help='Use one row per unit: the first in the order of this column; with "COLUMN DESC", the last.',
    ),
    click.option(
        "--memory", metavar="SIZE", default="1 GiB", show_default=True, help="The maximum memory of the model."
    ),
)
_price_options = options.combine_decorators(
    click.option(
        "--epsilon", metavar="NUMBER", help="The price of the model: the privacy loss ε of all steps together."
    ),
    click.option(
        "--delta", metavar="NUMBER", default="0", help="With --epsilon: the δ of the price; allows Gaussian noise."
    ),
    click.option(
        "--rho",
        metavar="NUMBER",
        help="The price in ρ, the loss of zero-concentrated differential privacy (zCDP), instead of --epsilon.",
    ),
    click.option(
        "--seconds",
        metavar="NUMBER",
        help="Stop after this many seconds and keep the model fitted so far; the whole price is charged.",
    ),
    options.request_id,
)
_file_options = options.combine_decorators(
    click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="The file for the synthetic rows: .parquet, .csv, .duckdb or .sqlite."),
    click.option("--model", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="The file for the model, such as people.sfu: query it, or draw more rows, for free."),
    click.option("--draw", metavar="N", help="The number of synthetic rows.  [default: the noisy number of real rows]"),
)  # fmt: skip


@click.command(short_help="Buy a model of a table, and draw synthetic rows.", epilog=EXIT_CODES_HELP)
@_model_options
@_price_options
@options.analyst
@options.ledger
@_file_options
@options.explain
@click.option("--forecast", is_flag=True, help="Only print the expected time and memory. Spends nothing.")
@click.option("--preview", is_flag=True, help="Run everything on invented rows: nothing is read, spent or written.")
@click.option("--dry-run", is_flag=True, hidden=True)  # the earlier name of --preview, accepted for one release
@options.as_json
@options.whole_receipt
def synthesize_command(policy: Path, analyst: str | None, ledger: Path | str | None, **values: Any) -> None:
    """Fit a private model to one TABLE of POLICY and draw a synthetic table from it.

    \b
    Examples:
      sfumato synthesize clinic.toml people --epsilon 1 --delta 1e-9 -o people.parquet --model people.sfu
      sfumato synthesize clinic.toml people --epsilon 1 --delta 1e-9 --preview
    """
    if values["dry_run"]:
        print_warning(
            "this option is called --preview here; in other commands, --dry-run prints price and expected error"
        )
        values["preview"] = True
    _check_options(values)
    rows_file, model_file, row_count = values["output"], values["model"], options.parse_row_count(values["draw"])
    from sfumato.curator import Curator

    with ProgressPrinter() as progress, Curator(policy, ledger, progress=progress) as curator:
        check_output_files(curator.policy, ledger, rows_file, model_file)
        proposal = _propose_model(curator if analyst is None else curator.as_analyst(analyst), values)
        price = {name: values[name] for name in ("epsilon", "delta", "rho")}
        if values["explain"]:
            explanation = proposal.explain(**price)
            click.echo(explanation.to_json() if values["as_json"] else str(explanation))
        elif values["forecast"]:
            click.echo(f"{proposal.forecast(**price)}")
        elif values["preview"]:
            model = proposal.preview(**price, progress=progress)
            click.echo(f"{model!r}\n\n{_PREVIEW_NOTE}")
        else:
            with progress.exit_on_interrupt():
                release_options = {"seconds": values["seconds"], "request_id": values["request_id"]}
                model = proposal.release(**price, **release_options, progress=progress)
                _write_files(model, rows_file, model_file, row_count, progress)
                _print_model(model, rows_file, model_file, values["as_json"], values["receipt"])


def _check_options(values: Mapping[str, Any]) -> None:
    """Refuse options that cannot be combined, and files that cannot be written."""
    if values["ways"] is not None and values["sets"]:
        raise click.UsageError("give --ways or --of, not both")
    if not values["explain"] and (values["epsilon"] is None) == (values["rho"] is None):
        raise click.UsageError("name one price: --epsilon 1 or --rho 0.01; there is no default")
    if not (values["explain"] or values["forecast"] or values["preview"]):
        _check_files(values["output"], values["model"])


def _propose_model(curator: Curator, values: Mapping[str, Any]) -> SynthesisProposal:
    """Return the proposal for the model that the options describe."""
    model_options = {name: values[name] for name in ("method", "target", "where", "rows", "memory")}
    model_options["columns"] = None if values["columns"] is None else _split_names(values["columns"])
    model_options["weights"] = dict(map(_parse_weight, values["weights"]))
    model_options |= {} if values["order"] is None else {"one_row_per": "unit", "order": values["order"]}
    return curator.synthesize(
        values["table"], ways=[_split_names(names) for names in values["sets"]] or values["ways"] or 3, **model_options
    )


_PREVIEW_NOTE = "This was a preview with invented rows: nothing was spent, no data were read, and no file was written."


def _write_files(
    model: Synthetic, rows_file: Path | None, model_file: Path | None, row_count: int | None, progress: Any
) -> None:
    """Write the model, then the rows: rows can be drawn again from a saved model."""
    if model_file is not None:
        progress("writing the model")
        model.save(model_file)
    if rows_file is not None:
        model.write(rows_file, row_count, progress)


def _print_model(
    model: Synthetic, rows_file: Path | None, model_file: Path | None, as_json: bool, receipt: bool
) -> None:
    if as_json:
        click.echo(model.receipt.to_json())
        return
    click.echo(
        f"{' and '.join(str(file) for file in (rows_file, model_file) if file)}:\n{model!r}\n\n{model.quality()}"
    )
    click.secho(f"\n{model.receipt if receipt else model.receipt.short()}", dim=True)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _parse_weight(text: str) -> tuple[str, str]:
    name, equals, weight = text.rpartition("=")
    if not equals or not name:
        raise click.UsageError(f"write a weight as --weight income=3, not {text}")
    return name.strip(), weight.strip()


def _check_files(rows_file: Path | None, model_file: Path | None) -> None:
    """Refuse, before anything is spent, files that cannot be written."""
    if rows_file is None and model_file is None:
        raise click.UsageError("name what to write: -o people.parquet for rows, --model people.sfu, or both")
    if rows_file is not None:
        from sfumato.publish.row_writers import rows_file_path

        rows_file_path(rows_file)
    for file in (rows_file, model_file):
        if file is not None and not file.parent.is_dir():
            raise click.UsageError(f"there is no folder {file.parent}: create it, or name another folder")


@click.command(short_help="Draw synthetic rows from a model, for free.", epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.option("--rows", metavar="N", help="The number of rows, such as 1e6.  [default: the noisy number of real rows]")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="The file to write: .parquet, .csv, .duckdb or .sqlite.",
)
@click.option(
    "--given",
    "conditions",
    multiple=True,
    metavar="A=VALUE",
    help="Draw only rows in which column A is VALUE, from the model's exact conditional distribution. Repeatable; "
    "several values of one column mean any of them.",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="SQL",
    help='Draw no row that breaks this condition, such as "discharge >= admission". Repeatable.',
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="A seed: the same N draws the same rows again. It does not affect the model or its noise.",
)
def sample_command(
    file: Path,
    rows: str | None,
    output: Path,
    conditions: tuple[str, ...],
    constraints: tuple[str, ...],
    seed: int | None,
) -> None:
    """Draw any number of synthetic rows from the model in FILE. No data are read, nothing is charged.

    \b
    Examples:
      sfumato sample people.sfu --rows 1e6 -o people.parquet
      sfumato sample people.sfu --rows 500 --given ward=ICU --constraint "discharge >= admission" -o icu.duckdb
    """
    row_count, given_texts = options.parse_row_count(rows), _parse_conditions(conditions)
    from sfumato.errors import InvalidParameter
    from sfumato.policy import Type
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.row_writers import rows_file_path
    from sfumato.publish.synthetic import Synthetic
    from sfumato.publish.synthetic_tables import SyntheticTables

    rows_file_path(output)
    model = synopsis(file)
    if isinstance(model, SyntheticTables):
        fix = f'write all tables in Python, with sf.synopsis("{file}").write("folder")'
        raise InvalidParameter("file", str(file), "a model of one table, but this file has several", fix=fix)
    if not isinstance(model, Synthetic):
        fix = f'query it with sfumato ask {file} "SELECT …", or buy a model with sfumato synthesize'
        raise InvalidParameter("file", str(file), "a model, because a synopsis has only marginals", fix=fix)
    truth_columns = {attribute.name for attribute in model.attributes if attribute.type is Type.BOOLEAN}
    given_values = {
        name: [_TRUTHS.get(value, value) if name in truth_columns else value for value in values]
        for name, values in given_texts.items()
    }
    with ProgressPrinter() as progress:
        report = model.write(
            output, row_count, progress, conditions=given_values, constraints=list(constraints), seed=seed
        )
    rows_drawn = model.default_rows if row_count is None else row_count
    click.echo(f"{output}: {rows_drawn:,} rows of {len(model.columns)} columns, drawn from {file}; nothing was charged")
    if report is not None:
        click.echo(str(report))


_TRUTHS: dict[str | None, Any] = {"true": True, "false": False}


def _parse_conditions(texts: Sequence[str]) -> dict[str, list[str | None]]:
    """Collect the values of each column; NULL is a missing one."""
    conditions: dict[str, list[str | None]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"write a condition as --given ward=ICU, not {text}")
        conditions.setdefault(name.strip(), []).append(None if value.strip() == "NULL" else value.strip())
    return conditions
