"""Line input of the shell: from an editor on a terminal, or plain lines from anywhere else.

The editor is prompt_toolkit (the extra ``shell``): the readline module cannot edit multi-line text, and is a different
library on each system. Without prompt_toolkit, plain terminal lines are read, without completion.

Typed lines are saved in a file that only its owner can read: a question may name a person.
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

from sfumato.cli.shell.completion import Completion, common_prefix, is_command_inside_statement, is_complete
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


_MAX_BYTES = 4 << 20
"""The most bytes read from the end of the history file."""


def default_history_path() -> Path:
    """Return the default path of the history file, in the user's state folder (XDG)."""
    state_home = os.environ.get("XDG_STATE_HOME")
    folder = Path(state_home) if state_home else Path(os.path.expanduser("~"), ".local", "state")
    return folder / "sfumato" / "shell-history"


class InputHistory:
    """The texts that were typed, oldest first, stored as one JSON string per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._open_file(os.O_RDONLY) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _MAX_BYTES))
                self.texts = list(_parse_texts(file.read()))
        except OSError:
            raise SfumatoError(
                "the history file cannot be opened: it must be a regular file that only you can read",
                place=str(path),
                fix="name another with --history FILE, or save nothing with --no-history",
            ) from None

    def append(self, text: str) -> None:
        """Append a text unless it repeats the last one; if the file cannot be written, keep it in memory only."""
        if not text.strip() or self.texts[-1:] == [text]:
            return
        self.texts.append(text)
        try:
            with self._open_file(os.O_WRONLY | os.O_APPEND) as file:
                file.write(json.dumps(text).encode() + b"\n")
        except OSError:
            return

    def _open_file(self, flags: int) -> BinaryIO:
        """Open or create the file with mode 0600; refuse a symbolic link or a device."""
        descriptor = os.open(self.path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{self.path} is not a regular file")
            os.fchmod(descriptor, 0o600)
            return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "ab")
        except OSError:
            os.close(descriptor)
            raise


def _parse_texts(content: bytes) -> Iterator[str]:
    """Yield the texts of all intact lines; skip truncated or damaged ones."""
    for line in content.splitlines():
        try:
            text = json.loads(line)
        except ValueError:
            continue
        if isinstance(text, str):
            yield text


CONTINUATION_PROMPT = "   ...> "
_YES_WORDS = ("y", "yes")


class LineInput(Protocol):
    """A source of input. EOFError ends it; KeyboardInterrupt is a Ctrl-C that cancels the current text."""

    def read(self, prompt: str, unfinished: str = "") -> str:
        """Read on from an unfinished statement to a text of complete ones, or to a command.

        Only the last text of an input may be neither.
        """

    def confirm(self, words: str) -> bool:
        """Ask for confirmation; return True only for a typed yes."""


class PlainLineInput:
    """Input from a pipe, a file, or a terminal without an editor; prompts are shown on terminals only."""

    def __init__(self, *, prompts: bool) -> None:
        self._prompts = prompts

    def read(self, prompt: str, unfinished: str = "") -> str:
        text = unfinished or self._read_line(prompt)
        while text is unfinished or not is_complete(text):
            try:
                line = self._read_line(CONTINUATION_PROMPT)
            except EOFError:
                return text
            if self._prompts and is_command_inside_statement(line):
                click.echo("While you type a question: \\q quits, \\reset discards it, ; ends it.", err=True)
            text += line
        return text

    def confirm(self, words: str) -> bool:
        return self._prompts and self._read_line(words).strip().lower() in _YES_WORDS

    def _read_line(self, prompt: str) -> str:
        if self._prompts:
            click.echo(prompt, nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line


class EditorInput:
    """Input from an editor: Enter submits a complete text, and starts a new line in an unfinished one."""

    def __init__(self, completion: Completion, history: InputHistory | None, toolbar: Callable[[], str]) -> None:
        self._history = history
        self._session = _prompt_session(completion, history.texts if history else (), toolbar)

    def read(self, prompt: str, unfinished: str = "") -> str:
        text = self._session.prompt(prompt, default=unfinished)
        if self._history is not None:
            self._history.append(text.strip())
        return text

    def confirm(self, words: str) -> bool:
        from prompt_toolkit import prompt

        return prompt(words).strip().lower() in _YES_WORDS


def has_editor() -> bool:
    """Return whether stdin and stdout are a terminal and prompt_toolkit is installed."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        return False
    return True


def _prompt_session(
    completion: Completion, history_texts: Iterable[str], toolbar: Callable[[], str]
) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion as PromptCompletion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import InMemoryHistory

    class PolicyCompleter(Completer):
        def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[PromptCompletion]:
            for candidate in completion.candidates(document.text_before_cursor, document.text_after_cursor):
                yield PromptCompletion(candidate.text, -candidate.replaced_letters, display_meta=candidate.kind)

    return PromptSession(
        multiline=True,
        completer=PolicyCompleter(),
        complete_while_typing=False,
        key_bindings=_key_bindings(completion),
        history=InMemoryHistory(list(history_texts)),
        enable_history_search=True,
        prompt_continuation=lambda width, *_: CONTINUATION_PROMPT.rjust(width),
        bottom_toolbar=toolbar,
    )


def _key_bindings(completion: Completion) -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the first Enter accepts the selected completion
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @bindings.add("tab")
    def _tab(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        document = buffer.document
        letters, text = common_prefix(completion.candidates(document.text_before_cursor, document.text_after_cursor))
        if text:
            buffer.delete_before_cursor(letters)
            buffer.insert_text(text)
        else:
            buffer.start_completion()

    return bindings
