"""List and remove the Parquet copies that were made of private tables for a policy.

A copy is recognised by what it records of its original, never by its name alone: a file of the owner's is not removed.
Copies are listed in the policy's folder of copies, with those that a crash left unfinished there, and among the
policy's sources, where an earlier version or a moved policy has them.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.curator.policy_account import LEDGER_NAME, read_policy
from sfumato.engine.file_copies import UNFINISHED_ENDING, copies_folder, recorded_origin
from sfumato.errors import InvalidPolicy
from sfumato.policy import File
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class TableCopies:
    """The copies of a policy's tables, and what a removal leaves in place."""

    policy: Path
    originals_by_copy: dict[Path, Path | None]
    """Each copy with its original; None for one that was never finished."""
    other_files: tuple[Path, ...]
    """Files in the folder of copies that are no copies."""
    missing: tuple[Path, ...] = ()
    """Copies that the policy names and that are not there any more."""

    @property
    def remaining_files(self) -> tuple[Path, ...]:
        """The files that stay: the policy, its ledger, the originals, and what else is in the folder."""
        originals = dict.fromkeys(original for original in self.originals_by_copy.values() if original is not None)
        candidates = (self.policy, self.policy.absolute().with_name(LEDGER_NAME), *originals, *self.other_files)
        return tuple(path for path in candidates if path.exists())

    @property
    def without_original(self) -> tuple[Path, ...]:
        """Copies whose original is gone: they may be the only place of these rows."""
        return tuple(
            copy for copy, original in self.originals_by_copy.items() if original is not None and not original.exists()
        )

    def remove(self) -> None:
        """Delete the copies, and their folder if nothing else is in it."""
        for copy in self.originals_by_copy:
            try:
                copy.unlink(missing_ok=True)
            except OSError:
                raise InvalidPolicy(
                    "a copy of a private table could not be removed",
                    place=str(copy),
                    fix="check the permissions of its folder",
                ) from None
        folder = copies_folder(self.policy)
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()


def find_copies(policy: Path) -> TableCopies:
    """List the copies of a policy; of one that was never written, those in its folder of copies. No row is read."""
    folder = copies_folder(policy)
    folder_files = sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []
    if not policy.exists() and not folder_files:
        raise InvalidPolicy(
            "there is no policy file here, and no folder with copies of its tables",
            place=str(policy),
            fix="check the path of the policy",
        )
    copies: dict[Path, Path | None] = {}
    for path in dict.fromkeys((*folder_files, *_declared_source_files(policy))):
        origin = None if path.is_symlink() else recorded_origin(path)
        if origin is not None:
            copies[path] = origin.original_path(path)
        elif path.parent == folder and path.name.endswith(f".parquet{UNFINISHED_ENDING}"):
            copies[path] = None
    missing = tuple(path for path in _declared_source_files(policy) if path.parent == folder and not path.exists())
    return TableCopies(policy, copies, tuple(path for path in folder_files if path not in copies), missing)


def _declared_source_files(policy: Path) -> list[Path]:
    tables = read_policy(policy).tables.values() if policy.exists() else ()
    return [table.source.path.absolute() for table in tables if isinstance(table.source, File)]
