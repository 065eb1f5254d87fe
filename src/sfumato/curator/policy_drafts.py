"""A policy for a file of data is drafted from what is there to declare, and the declarations are written down."""

from __future__ import annotations

from pathlib import Path

from sfumato.engine.opening import schema, tables
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy, Type
from sfumato.policy.drafting import drafted


def tables_to_declare(data: Path) -> list[str]:
    """List the names of the tables in a database; none for files of another kind."""
    return tables(data)


def columns_to_declare(data: Path, relation: str | None) -> dict[str, Type | None]:
    """List the columns of a table that a question can name, with their types where the file says them. No row is
    read.
    """
    found = schema(data, relation)
    if not found:
        raise InvalidPolicy(
            "a policy names columns by visible letters, at most 63; no column here is called so",
            place=str(data),
            fix="rename them",
        )
    return found


def refuse_if_written(output: Path) -> None:
    """Refuse to draft into a file that exists: it is never overwritten."""
    if output.exists():
        raise InvalidPolicy("an existing file is never overwritten", place=str(output), fix="choose another with -o")


def write_draft(policy: Policy, output: Path) -> None:
    """Write a policy to a new file, with its sources relative to it."""
    text = drafted(policy, output.parent)
    try:
        with output.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError:
        raise InvalidPolicy(
            "the policy cannot be written", place=str(output), fix="choose another place with -o"
        ) from None
