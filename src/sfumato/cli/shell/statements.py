"""Texts are cut into pieces: statements that a semicolon ends, and commands of one line."""

from __future__ import annotations

from sfumato.plan.sql.question_files import first_statement, is_blank

COMMAND = "\\"
_BARE = {"help": "\\help", "quit": "\\quit", "exit": "\\quit"}
"""Words that people type by themselves when they look for the way out, and the commands they mean."""


def pieces(text: str) -> tuple[list[str], str]:
    r"""Cut a text into whole pieces and the rest, in which a statement has begun and not ended.

    >>> pieces("SELECT 1; \\epsilon 0.5\nSELECT")
    (['SELECT 1', '\\epsilon 0.5'], 'SELECT')
    """
    found = []
    while text := text.lstrip():
        line, _, below = text.partition("\n")
        line = line.strip().rstrip("; ")
        if line.startswith(COMMAND) or line.lower() in _BARE:
            found.append(_BARE.get(line.lower(), line))
            text = below
            continue
        cut = first_statement(text)
        if cut is None:
            return found, "" if is_blank(text) else text
        statement, text = cut
        found += [statement.strip()] if statement.strip() else []
    return found, ""


def is_whole(text: str) -> bool:
    """Tell whether nothing in a text waits for its end."""
    return not pieces(text)[1]
