"""An answer is written to a file: its ending says how."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from sfumato.errors import InvalidParameter, SfumatoError

ENDINGS = (".csv", ".json", ".parquet")


class Writable(Protocol):
    """This is whatever can be written in each of the forms."""

    def to_arrow(self) -> Any: ...
    def to_json(self) -> str: ...
    def to_csv(self, *, separator: str = ",") -> str: ...


def check_file(path: str | os.PathLike[str], *, excel: bool = False) -> Path:
    """Refuse a file that an answer cannot be written to, before the answer is bought."""
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise InvalidParameter("path", str(path), f"a file that ends in {', '.join(ENDINGS)}")
    if excel and file.suffix.lower() != ".csv":
        raise InvalidParameter("path", str(path), "a .csv file, when it is to be opened by a spreadsheet")
    if not file.absolute().parent.is_dir():
        raise InvalidParameter("path", str(path), "a file in a folder that exists")
    return file


def save(answer: Writable, path: str | os.PathLike[str], *, excel: bool = False, separator: str = ",") -> None:
    """Write an answer as .csv, .json or .parquet. ``excel`` marks the text as UTF-8 so that spreadsheets show every
    letter; where they expect semicolons, ``separator=";"`` writes these, and decimal commas.
    """
    file = check_file(path, excel=excel)
    try:
        if file.suffix.lower() == ".parquet":
            from pyarrow import parquet

            parquet.write_table(answer.to_arrow(), file)
        elif file.suffix.lower() == ".json":
            file.write_text(answer.to_json(), encoding="utf-8")
        else:
            written = answer.to_csv(separator=separator)
            text = written.replace("\n", "\r\n") if excel else written
            file.write_bytes(text.encode("utf-8-sig" if excel else "utf-8"))
    except OSError as refused:
        reason = os.strerror(refused.errno or 0)
        raise SfumatoError(
            f"the answer cannot be written there ({reason})", place=str(file), fix="choose another file"
        ) from None
