"""A command ends here: refusals are printed as rule, place and fix on stderr, and scripts get an exit code.

Streams may be closed or full: a command then ends without a traceback, and says where it still can that an answer
that was charged is stored and free to ask for again.

The library's texts name its calls, as ``.limit(rows=5)``; what a command prints names its flags, ``--limit rows=5``.

A refusal keeps its rule, its place and its fix: only how something is written changes, to what can be typed here.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

import click

from sfumato.errors import InvalidParameter, Overspent, SfumatoError, WeakPrivacy, outcome

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


MEANINGS = {
    0: "done",
    1: "refused (the question, the policy or a file)",
    2: "wrong usage",
    3: "overspent",
    4: "charged but not answered",
    5: "the ledger is damaged or cannot be used",
    70: "a fault of sfumato itself",
    74: "the output could not be written",
    75: "not answered and not charged, ask again later",
    130: "interrupted",
}
"""What each exit code means: the refusals' own stand in ``errors.OUTCOMES``."""
EXIT_CODES = f"Exit codes: {', '.join(f'{code} {words}' for code, words in MEANINGS.items())}."
_STREAM_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG}
REFUSED, INTERNAL, UNWRITTEN, INTERRUPTED = 1, 70, 74, 130
"""As in sysexits.h: EX_SOFTWARE, EX_IOERR (and 75, EX_TEMPFAIL); and as shells say that a Ctrl-C ended a command."""
_INTERRUPTED = """the command was interrupted
  place: the command
  fix:   run it again: an answer that was charged is stored, and free"""
_INTERRUPTED_STORED = """the command was interrupted after its answer was stored
  place: the command
  fix:   run it again: the answer is stored, and free"""
_UNFINISHED = """the interview ended before its last question, and no policy was written
  place: the command
  fix:   run it again: it goes on where it was, with the answers that you gave"""
_LOST = """the output could not be written: the stream is closed or full
  place: stdout or stderr
  fix:   ask again once it can be: an answer that was charged is stored, and free"""
_FAULT = """this is a fault of sfumato itself ({kind} in {module}, line {line})
  place: the command
  fix:   report it with this text; an answer that was charged is stored, and free to ask for again"""


@contextmanager
def refusals(flags: Callable[[], Collection[str]] = tuple, details: Callable[[], bool] = bool) -> Iterator[None]:
    """Let whatever the library refuses end the command, without a traceback; ``flags`` gives those that it has, and
    ``details`` tells whether the currencies of a price that is refused are wanted.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", WeakPrivacy)
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        try:
            yield
        except SfumatoError as refusal:
            say(as_flags(refusal_words(refusal, flags())))
            if isinstance(refusal, Overspent) and details():
                say(refusal.details)
            sys.exit(outcome(refusal).exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            end_interrupted(stored=False)
        except Exception as fault:
            if _of_a_stream(fault):
                _unwritten()  # here: click would end a command whose reader has gone as if it were refused
            say(_described(fault))
            sys.exit(INTERNAL)


@contextmanager
def streams() -> Iterator[None]:
    """Closed streams lead nowhere, and what open ones cannot take ends the command with its own exit code."""
    closed = _opened()
    try:
        yield
    except SystemExit as leaving:
        lost = not _flushed() or "stdout" in closed
        if lost and leaving.code in (0, None):
            _unwritten()
        raise
    except OSError as error:
        if not _of_a_stream(error):
            raise
        _unwritten()


def _opened() -> list[str]:
    """Open the streams that were closed, and give their names: no file of ours is given their number."""
    closed = [name for name in ("stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the process ends)
    return closed


def _of_a_stream(error: Exception) -> bool:
    """Tell whether writing failed, and not opening or reading a file, which has a name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _STREAM_ERRORS


def _flushed() -> bool:
    """Tell whether everything is written; what cannot be is thrown away, or Python would try again when it ends."""
    whole = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            whole = False
            _discard(stream)
    return whole


def warn(words: str) -> None:
    say(f"warning: {as_flags(words)}", "yellow")


def say(words: str, colour: str = "red") -> None:
    """Write on stderr, or nowhere when that cannot be written."""
    with suppress(OSError, ValueError):
        click.secho(words, fg=colour, err=True)


def interrupted_words(*, stored: bool) -> str:
    """Say after a Ctrl-C whether an answer is stored."""
    return _INTERRUPTED_STORED if stored else _INTERRUPTED


def end_interrupted(*, stored: bool) -> NoReturn:
    """End after a Ctrl-C, and say whether an answer is stored."""
    say(interrupted_words(stored=stored))
    sys.exit(INTERRUPTED)


def end_unfinished(*, interrupted: bool) -> NoReturn:
    """End an interview without all of its answers, and say that it can go on."""
    say(f"\n{_UNFINISHED}")
    sys.exit(INTERRUPTED if interrupted else REFUSED)


def _unwritten() -> NoReturn:
    _flushed()
    say(_LOST)
    _flushed()
    sys.exit(UNWRITTEN)


def _described(fault: Exception) -> str:
    """Describe the kind and the place of a fault: its own text may hold anything."""
    place = fault.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = "sfumato" if place is None else place.tb_frame.f_globals.get("__name__", "sfumato")
    return _FAULT.format(kind=type(fault).__name__, module=module, line=0 if place is None else place.tb_lineno)


def _discard(stream: TextIO) -> None:
    """Point a stream that cannot be written to nowhere: Python flushes it once more when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
