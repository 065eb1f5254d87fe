"""Error messages and exit codes of commands.

A refusal is printed on stderr as rule, place and fix, and the process exits with the code of its kind. If stdout or
stderr is closed or full, the command ends without a traceback and says, where it still can, that a charged answer is
stored and free to ask for again.

The library's messages name its calls, ``.limit(rows=5)``; here they are rewritten to what can be typed,
``--limit rows=5``. Rule, place and fix stay the same.
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

_CALLS_TO_FLAGS = (
    (re.compile(r"\.limit\((\w+=[\w…]+)\)"), r"--limit \1"),
    (re.compile(r"\b\w+(?:\(\))? \((--[a-z-]+)\)"), r"\1"),  # "epsilon (--epsilon)" is written for both
    (re.compile(r"sql\(question, (?:\[40\]|\{'\w+': 40\})\) or (?=--param )"), ""),
    (re.compile(r"sql\(question, \[40\]\)"), "--param 1=40"),
    (re.compile(r"; answer\.to_altair\(\) .*"), ""),
    (re.compile(r"\bnaming the others in columns\b"), "naming the others in --columns"),
    (re.compile(r", or account\.amend\(…, reason=…\)"), ""),
    (re.compile(r", or ledger\.acknowledge\(anchor, reason=…\)"), ""),
)
_FLAG_OF_PARAMETER = {
    "path": "output",
    "rows_per_group": "limit",
    "groups": "limit",
    "rows": "limit",
    "weights": "weight",
}
"""The flag of a library parameter whose name differs from it."""
_FLAGS_TO_SHELL = (
    (re.compile(r"--(epsilon|delta|within|limit|explain)\b"), r"\\\1"),
    (re.compile(r"--dry-run\b"), r"\\explain"),
    (re.compile(r", or pass it: --param 1=40"), ""),
)


def calls_to_flags(text: str) -> str:
    """Replace the library calls in a message by command-line flags.

    >>> calls_to_flags("tighten it, such as .limit(groups=10)")
    'tighten it, such as --limit groups=10'
    """
    for call, flag in _CALLS_TO_FLAGS:
        text = call.sub(flag, text)
    return text


def calls_to_shell_commands(text: str) -> str:
    r"""Replace the library calls and flags in a message by commands of the shell.

    >>> print(calls_to_shell_commands("tighten it, such as .limit(groups=10)"))
    tighten it, such as \limit groups=10
    """
    text = calls_to_flags(text)
    for flag, command in _FLAGS_TO_SHELL:
        text = flag.sub(command, text)
    return text


def format_refusal(refusal: SfumatoError, flags: Collection[str] = (), prefix: str = "--") -> str:
    """Return the message of a refusal, with a parameter that has a flag written as that flag."""
    message = str(refusal)
    name = refusal.parameter.split(" ")[0] if isinstance(refusal, InvalidParameter) else ""
    flag = name.replace("_", "-") if name.replace("_", "-") in flags else _FLAG_OF_PARAMETER.get(name, "")
    if flag not in flags:
        return message
    flag_text = f"{prefix}{flag} {name}=" if flag == "limit" != name else f"{prefix}{flag}"
    return re.sub(
        rf'(^|^each value of |place: |set |give |write |leave out |value for )("?){re.escape(name)}\b\2',
        lambda match: f"{match[1]}{flag_text}",
        message,
    )


EXIT_CODE_MEANINGS = {
    0: "done",
    1: "refused (the question, the policy or a file)",
    2: "wrong usage",
    3: "overspent",
    4: "charged but not answered",
    5: "the ledger is damaged or cannot be used",
    70: "a bug in sfumato",
    74: "the output could not be written",
    75: "neither answered nor charged: ask again later",
    130: "interrupted",
}
"""The meaning of each exit code; the codes of refusals are defined in ``errors.OUTCOMES``."""
EXIT_CODES_HELP = f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODE_MEANINGS.items())}."
_STREAM_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG}
REFUSED, INTERNAL, UNWRITTEN, INTERRUPTED = 1, 70, 74, 130
"""70, 74 and 75 as in sysexits.h (EX_SOFTWARE, EX_IOERR, EX_TEMPFAIL); 130 as shells report a Ctrl-C."""
_INTERRUPTED = """the command was interrupted
  place: the command
  fix:   run it again: an answer that was charged is stored, and free"""
_INTERRUPTED_STORED = """the command was interrupted after its answer was stored
  place: the command
  fix:   run it again: the answer is stored, and free"""
_INTERVIEW_UNFINISHED = """the interview ended before its last question, and no policy was written
  place: the command
  fix:   run it again: it continues where it stopped, with the answers that you gave"""
_OUTPUT_LOST = """the output could not be written: the stream is closed or full
  place: stdout or stderr
  fix:   run it again with a working output: an answer that was charged is stored, and free"""
_FAULT = """this is a bug in sfumato ({kind} in {module}, line {line})
  place: the command
  fix:   report it with this message; an answer that was charged is stored, and free to ask for again"""


@contextmanager
def exit_on_refusal(flags: Callable[[], Collection[str]] = tuple, details: Callable[[], bool] = bool) -> Iterator[None]:
    """End the command with a message and an exit code, not a traceback, when the library refuses or fails.

    Args:
        flags: returns the flags of the command, so that messages can name them.
        details: returns whether an overspent refusal also prints its amounts in every currency.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", WeakPrivacy)
        warnings.showwarning = lambda message, *_, **__: print_warning(str(message))
        try:
            yield
        except SfumatoError as refusal:
            print_error(calls_to_flags(format_refusal(refusal, flags())))
            if isinstance(refusal, Overspent) and details():
                print_error(refusal.details)
            sys.exit(outcome(refusal).exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            exit_interrupted(stored=False)
        except Exception as fault:
            if _is_stream_error(fault):
                _exit_unwritable(fault)  # click would exit with 1, as if the command had been refused
            print_error(_describe_fault(fault))
            sys.exit(INTERNAL)


@contextmanager
def guard_streams() -> Iterator[None]:
    """Redirect closed streams to nowhere, and exit with 74 if an open one cannot be written: without a word if its
    reader has left, as ``head`` does once it has read enough.
    """
    closed_names = _open_closed_streams()
    try:
        yield
    except SystemExit as exiting:
        errors = _flush_streams()
        if (errors or "stdout" in closed_names) and exiting.code in (0, None):
            _exit_unwritable(*errors)
        raise
    except OSError as error:
        if not _is_stream_error(error):
            raise
        _exit_unwritable(error)


def _open_closed_streams() -> list[str]:
    """Open closed streams on the null device, so that no file gets their descriptor; return their names."""
    closed = [name for name in ("stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the process ends)
    return closed


def _is_stream_error(error: Exception) -> bool:
    """Return whether writing to a stream failed, as opposed to a named file."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _STREAM_ERRORS


def _flush_streams() -> list[Exception]:
    """Flush stdout and stderr and return what failed; discard what cannot be written."""
    errors: list[Exception] = []
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            errors.append(error)
            _discard(stream)
    return errors


def print_warning(message: str) -> None:
    print_error(f"warning: {calls_to_flags(message)}", "yellow")


def print_error(message: str, colour: str = "red") -> None:
    """Print to stderr; do nothing if that cannot be written."""
    with suppress(OSError, ValueError):
        click.secho(message, fg=colour, err=True)


def interrupted_message(*, stored: bool) -> str:
    """Return the message after a Ctrl-C: it says whether an answer is stored."""
    return _INTERRUPTED_STORED if stored else _INTERRUPTED


def exit_interrupted(*, stored: bool) -> NoReturn:
    """Exit after a Ctrl-C with a message that says whether an answer is stored."""
    print_error(interrupted_message(stored=stored))
    sys.exit(INTERRUPTED)


def exit_unfinished(*, interrupted: bool) -> NoReturn:
    """Exit from an interview that lacks answers, and say that it can be continued."""
    print_error(f"\n{_INTERVIEW_UNFINISHED}")
    sys.exit(INTERRUPTED if interrupted else REFUSED)


def _exit_unwritable(*errors: Exception) -> NoReturn:
    """Exit with 74, and say why unless every reader has left of its own accord."""
    _flush_streams()
    if not errors or not all(isinstance(error, BrokenPipeError) for error in errors):
        print_error(_OUTPUT_LOST)
    _flush_streams()
    sys.exit(UNWRITTEN)


def _describe_fault(fault: Exception) -> str:
    """Return the exception class and its line, never its text, which may contain data."""
    frame = fault.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = "sfumato" if frame is None else frame.tb_frame.f_globals.get("__name__", "sfumato")
    return _FAULT.format(kind=type(fault).__name__, module=module, line=0 if frame is None else frame.tb_lineno)


def _discard(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to the null device: Python flushes it again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, stream.fileno())
        os.close(null_device)
