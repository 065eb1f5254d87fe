"""This package holds a real table to try things on, with its policy. Where it comes from and its licence: ORIGIN.md
beside this file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from sfumato.errors import SfumatoError

FILES = ("flights.toml", "flights.parquet", "airlines.csv", "ORIGIN.md")


def example(folder: str | os.PathLike[str] | None = None) -> Path:
    """Copy the example, a policy with its tables, into a folder: a new temporary one unless it is named.

    >>> example().name
    'flights.toml'
    """
    place = Path(tempfile.mkdtemp(prefix="sfumato-")) if folder is None else Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with (place / name).open("xb") as copy, (Path(__file__).parent / name).open("rb") as original:
                shutil.copyfileobj(original, copy)
    except OSError as error:
        raise SfumatoError(
            f"the example cannot be written there ({os.strerror(error.errno or 0)})",
            place=str(place),
            fix="name a folder that is new, empty and yours to write in",
        ) from None
    return place / FILES[0]
