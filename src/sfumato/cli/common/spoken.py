"""The library's texts name its calls, as ``.limit(rows=5)``; what a command prints names its flags, ``--limit rows=5``.

A refusal keeps its rule, its place and its fix: only how something is written changes, to what can be typed here.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sfumato.errors import InvalidParameter, SfumatoError

_FLAGS = (
    (re.compile(r"\.limit\((\w+=[\w…]+)\)"), r"--limit \1"),
    (re.compile(r"\b\w+(?:\(\))? \((--[a-z-]+)\)"), r"\1"),  # "epsilon (--epsilon)" is written for both
    (re.compile(r"sql\(question, \[40\]\)(?:, sql\(question, {'name': 40}\) or --param name=40)?"), "--param name=40"),
    (re.compile(r"; answer\.to_altair\(\) .*"), ""),
    (re.compile(r"\bnaming the others in columns\b"), "naming the others in --columns"),
    (re.compile(r", or account\.amend\(…, reason=…\)"), ""),
    (re.compile(r", or ledger\.acknowledge\(anchor, reason=…\)"), ""),
)
_CALLED = {"path": "output", "rows_per_group": "limit", "groups": "limit", "rows": "limit"}
"""What the library calls a parameter, and the command line a flag, where there is no flag of that name."""
_SHELL = (
    (re.compile(r"--(epsilon|delta|within|limit|explain)\b"), r"\\\1"),
    (re.compile(r"--dry-run\b"), r"\\explain"),
    (re.compile(r", or give it: --param name=40"), ""),
)


def as_flags(text: str) -> str:
    """Write a text of the library as the command line would.

    >>> as_flags("tighten it, such as .limit(groups=10)")
    'tighten it, such as --limit groups=10'
    """
    for call, flag in _FLAGS:
        text = call.sub(flag, text)
    return text


def in_shell(text: str) -> str:
    r"""Write a text of the library as the shell would.

    >>> print(in_shell("tighten it, such as .limit(groups=10)"))
    tighten it, such as \limit groups=10
    """
    text = as_flags(text)
    for flag, command in _SHELL:
        text = flag.sub(command, text)
    return text


def refusal_words(refusal: SfumatoError, flags: Collection[str] = (), mark: str = "--") -> str:
    """Write a refusal for whoever typed the command: a parameter that is one of its flags is called as the flag is."""
    words = str(refusal)
    name = refusal.parameter.split(" ")[0] if isinstance(refusal, InvalidParameter) else ""
    flag = name.replace("_", "-") if name.replace("_", "-") in flags else _CALLED.get(name, "")
    if flag not in flags:
        return words
    written = f"{mark}{flag} {name}=" if flag == "limit" != name else f"{mark}{flag}"
    return re.sub(rf"(^|place: |give |write ){re.escape(name)}\b", lambda found: f"{found[1]}{written}", words)
