"""Large answers are kept as files beside the ledger, each named by its SHA-256.

A file is written and synced before the line that refers to it, so an answer that a line knows is on disk. A file never
changes: one whose content has another hash was changed by somebody else, and is as good as missing. Only the answer it
holds is lost then; what was spent is in the lines.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from sfumato.errors import LedgerUnavailable
from sfumato.ledger import local_files

LARGE = 1 << 16
"""Answers of more bytes than this are kept as files."""


class BodyFiles:
    """This is the folder of one ledger's large answers; it is made with the first of them."""

    def __init__(self, ledger: Path) -> None:
        self.folder = Path(f"{ledger}.answers")

    def keep(self, body: str) -> str:
        """Write a body and sync it; the hash that names it. It is durable on return."""
        content = body.encode()
        digest = sha256(content).hexdigest()
        try:
            self._write(digest, content)
        except OSError as error:
            raise LedgerUnavailable(
                f"a large answer could not be written beside the ledger ({os.strerror(error.errno or 0)})",
                place=str(self.folder),
                fix="make the folder writable for this user, and leave room on the disk",
            ) from error
        return digest

    def read(self, digest: str) -> str | None:
        """Read the body of this hash; None where its file is missing or was changed."""
        try:
            content = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return content.decode() if sha256(content).hexdigest() == digest else None

    def copy(self, target: BodyFiles) -> None:
        """Copy every file, as it is, for a backup: files are never removed, so all that its lines refer to are here."""
        if self.folder.is_dir():
            for path in sorted(self.folder.glob("[0-9a-f]" * 64)):
                target._write(path.name, path.read_bytes())

    def _write(self, digest: str, content: bytes) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, exist_ok=True)
            local_files.sync_folder(self.folder)
        target = self.folder / digest
        partial = local_files.scratch(target)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        local_files.sync_folder(target)
