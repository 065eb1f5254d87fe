"""Lines come to the shell from an editor at a terminal, or from anything else, one by one.

The editor is prompt_toolkit (the extra ``shell``): the readline of the standard library edits no text of several lines,
and is another library on each system. Without it the terminal's own lines are read, and nothing is completed.

Typed lines are kept in a file that its owner alone can read: a question may name a person.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import click

from sfumato.cli.shell.completion import Completion, common, is_whole
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


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


MORE = "   ...> "
_YES = ("y", "yes")


class Lines(Protocol):
    """Lines are read until EOFError says that there are no more; KeyboardInterrupt is a Ctrl-C that ends one."""

    def read(self, prompt: str) -> str:
        """Read a text in which nothing waits for its end, or the last one, in which something may."""

    def confirm(self, words: str) -> bool:
        """Ask whether to go on: only a yes that was typed is one."""


class PlainLines:
    """These lines come from a pipe, a file, or a terminal without an editor; prompts are for terminals alone."""

    def __init__(self, *, prompts: bool) -> None:
        self._prompts = prompts

    def read(self, prompt: str) -> str:
        text = self._line(prompt)
        while not is_whole(text):
            try:
                text += self._line(MORE)
            except EOFError:
                return text
        return text

    def confirm(self, words: str) -> bool:
        return self._prompts and self._line(words).strip().lower() in _YES

    def _line(self, prompt: str) -> str:
        if self._prompts:
            click.echo(prompt, nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line


class EditedLines:
    """These lines are typed into an editor: Enter ends a text that is whole, and begins a new line in any other."""

    def __init__(self, completion: Completion, history: TypedHistory | None, below: Callable[[], str]) -> None:
        self._history = history
        self._session = _session(completion, history.texts if history else (), below)

    def read(self, prompt: str) -> str:
        text = self._session.prompt(prompt)
        if self._history is not None:
            self._history.keep(text.strip())
        return text

    def confirm(self, words: str) -> bool:
        from prompt_toolkit import prompt

        return prompt(words).strip().lower() in _YES


def can_edit() -> bool:
    """Tell whether there is a terminal to edit on, and the editor."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        return False
    return True


def _session(completion: Completion, typed: Iterable[str], below: Callable[[], str]) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion as Shown
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import InMemoryHistory

    class Names(Completer):
        def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Shown]:
            for each in completion.candidates(document.text_before_cursor, document.text_after_cursor):
                yield Shown(each.text, -each.letters, display_meta=each.kind)

    return PromptSession(
        multiline=True,
        completer=Names(),
        complete_while_typing=False,
        key_bindings=_keys(completion),
        history=InMemoryHistory(list(typed)),
        enable_history_search=True,
        prompt_continuation=lambda width, *_: MORE.rjust(width),
        bottom_toolbar=below,
    )


def _keys(completion: Completion) -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the first Enter takes what was chosen from the menu
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @keys.add("tab")
    def _tab(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        typed = buffer.document
        letters, text = common(completion.candidates(typed.text_before_cursor, typed.text_after_cursor))
        if text:
            buffer.delete_before_cursor(letters)
            buffer.insert_text(text)
        else:
            buffer.start_completion()

    return keys
