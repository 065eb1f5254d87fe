"""A published file is read as what it is, which its manifest says: a synopsis, or a model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from sfumato.errors import SynopsisDamaged
from sfumato.publish.files import fitted_files, model_files, synopsis_files, zip_files
from sfumato.publish.fitted_models import FittedModel
from sfumato.publish.synopsis import Synopsis
from sfumato.publish.synthetic import Synthetic
from sfumato.untrusted import UNFORESEEN, refusing

Published = Synopsis | FittedModel | Synthetic

_FORM = "survey-file/1"
_READERS: dict[str, Callable[[bytes, str], Published]] = {
    fitted_files.KIND: FittedModel.read,
    model_files.KIND: Synthetic.read,
}
"""By the kind of the manifest; anything else is read as a synopsis, which says what is wrong with it."""


def synopsis(path: str | os.PathLike[str]) -> Published:
    """Read what was published from its file: no data, curator or ledger is needed, and whatever was edited is refused.

    A file of marginals gives a ``Synopsis``, one of a synthetic table a ``Synthetic``, and one of a model that MWEM
    fitted a ``FittedModel``.
    """
    content = zip_files.content_of(path)
    with refusing(lambda: zip_files.damaged(str(path), "what it holds does not fit together")):
        return _read(content, path)


def _read(content: bytes, path: str | os.PathLike[str]) -> Published:
    kind = _kind(content, str(path))
    if kind == _FORM:
        fix = "read it with sf.form; what was answered is in the reports"
        raise SynopsisDamaged("this file is a survey form, which holds no answers", place=str(path), fix=fix)
    reader = _READERS.get(kind)
    return Synopsis(*synopsis_files.read(content, str(path))) if reader is None else reader(content, str(path))


def _kind(content: bytes, place: str) -> str:
    """Find what kind of thing a file says it is; the readers check all of it."""
    for name, member in zip_files.members_of(content, place):
        if name == zip_files.MANIFEST:
            try:
                return str(json.loads(member, parse_float=str, parse_constant=str)["kind"])
            except UNFORESEEN:
                return ""
    return ""
