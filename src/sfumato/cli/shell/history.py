"""Typed lines are kept in a file that its owner alone can read: a question may name a person."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import SfumatoError

_MOST_BYTES = 4 << 20
"""Read from the end of the file: more than anybody looks back."""


def usual_path() -> Path:
    """Say where the file is unless it is named: where the user keeps the state of programs."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path(os.path.expanduser("~"), ".local", "state")
    return folder / "sfumato" / "shell-history"


class TypedHistory:
    """These are the texts that were typed, oldest first, one line of JSON for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._opened(os.O_RDONLY) as opened:
                size = os.fstat(opened.fileno()).st_size
                opened.seek(max(0, size - _MOST_BYTES))
                self.texts = list(_texts(opened.read()))
        except OSError:
            raise SfumatoError(
                "typed lines are kept in a file that only you can read, and this one cannot be opened",
                place=str(path),
                fix="name another with --history FILE, or keep nothing with --no-history",
            ) from None

    def keep(self, text: str) -> None:
        """Add a text, unless it is the last one again. What cannot be written now is only remembered."""
        if not text.strip() or self.texts[-1:] == [text]:
            return
        self.texts.append(text)
        try:
            with self._opened(os.O_WRONLY | os.O_APPEND) as opened:
                opened.write(json.dumps(text).encode() + b"\n")
        except OSError:
            return

    def _opened(self, flags: int) -> BinaryIO:
        """Open the file, made if it is missing, with no rights for others; a link or a device is none of ours."""
        number = os.open(self.path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise OSError(f"{self.path} is no file")
            os.fchmod(number, 0o600)
            return os.fdopen(number, "rb" if flags == os.O_RDONLY else "ab")
        except OSError:
            os.close(number)
            raise


def _texts(kept: bytes) -> Iterator[str]:
    """Read what can be read: a line that was cut or damaged counts for nothing."""
    for line in kept.splitlines():
        try:
            text = json.loads(line)
        except ValueError:
            continue
        if isinstance(text, str):
            yield text
