"""A command runs at a pseudo-terminal, and a test types into it as a person would."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from forked_commands import forked_command

PATIENCE = 120.0
"""Seconds until text that does not come is a failure: far more than a busy machine takes."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")
CTRL_C, CTRL_D, TAB, UP, ENTER = "\x03", "\x04", "\t", "\x1b[A", "\r"


class Terminal:
    """A terminal shows what a command writes, without colours and moves of the cursor."""

    def __init__(self, *arguments: str | Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        known = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1", **environment}
        self._process = forked_command(*arguments, streams=[theirs] * 3, environment=known, terminal=True)
        os.close(theirs)
        self._raw = b""
        self._read = 0

    @property
    def shown(self) -> str:
        """All that was shown so far."""
        return _ESCAPES.sub("", self._raw.decode(errors="ignore"))

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def expect(self, text: str) -> str:
        """Wait until the text is shown below what was expected before, and give what came until then."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.shown.find(text, self._read)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.shown[self._read :]!r}"
            assert self._more(left), f"the command ended before {text!r} came: {self.shown[self._read :]!r}"
        start, self._read = self._read, found + len(text)
        return self.shown[start : self._read]

    def _more(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], min(seconds, 1.0))
        if not ready:
            return True
        try:
            got = os.read(self._ours, 65536)
        except OSError:  # Linux says so when nobody has the other end any more
            return False
        self._raw += got
        return bool(got)

    def ends(self) -> int:
        """Wait for the end of the command and give its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._more(1.0):
            assert time.monotonic() < deadline, f"the command does not end: {self.shown[self._read :]!r}"
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None
        return self._process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        os.close(self._ours)
