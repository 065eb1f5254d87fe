"""The bundled example: a real table with its policy. Its origin and licence are in ORIGIN.md beside this file."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from sfumato.errors import SfumatoError

FILES = ("flights.toml", "flights.parquet", "airlines.csv", "ORIGIN.md")


def example(folder: str | os.PathLike[str] | None = None) -> Path:
    """Copy the example policy and its tables into a folder, by default a new temporary one; return the policy's path.

    >>> example().name
    'flights.toml'
    """
    target_folder = Path(tempfile.mkdtemp(prefix="sfumato-")) if folder is None else Path(folder)
    try:
        target_folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with (target_folder / name).open("xb") as target, (Path(__file__).parent / name).open("rb") as source:
                shutil.copyfileobj(source, target)
    except OSError as error:
        raise SfumatoError(
            f"the example cannot be written there ({os.strerror(error.errno or 0)})",
            place=str(target_folder),
            fix="name a new or empty folder that you can write to",
        ) from None
    return target_folder / FILES[0]
