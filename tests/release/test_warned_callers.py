"""A warning of a weak price names the caller's line: the first one outside the package."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from sfumato.release import prices


def frames(*modules: str | None) -> Any:
    """The frame of the first module, called from that of the next, and so on."""
    frame = None
    for module in reversed(modules):
        names = {} if module is None else {"__name__": module}
        frame = SimpleNamespace(f_globals=names, f_back=frame)
    return frame


@pytest.mark.parametrize(
    ("modules", "level"),
    [
        (("sfumato.release.prices", "notebook"), 2),
        (("sfumato.release.prices", "sfumato.curator", "sfumato.cli", "__main__", "sfumato.x"), 4),
        (("sfumato.release.prices", "sfumatography.main"), 2),
        (("sfumato.release.prices", None), 2),
        (("sfumato.release.prices", "sfumato.cli.main"), 1),  # nobody outside: the warning's own line
        (("elsewhere", "sfumato.cli"), 1),
        ((), 1),
    ],
)
def test_the_level_is_that_of_the_first_frame_outside(
    monkeypatch: pytest.MonkeyPatch, modules: tuple[str | None, ...], level: int
) -> None:
    emitted: list[Any] = []
    monkeypatch.setattr(prices, "inspect", SimpleNamespace(currentframe=lambda: frames(*modules)))
    monkeypatch.setattr(
        prices,
        "warnings",
        SimpleNamespace(warn=lambda reason, kind, stacklevel: emitted.append((reason, kind, stacklevel))),
    )
    prices.warn_caller("weak")
    assert emitted == [("weak", sf.WeakPrivacy, level)]


def test_the_warning_is_of_this_file() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prices.warn_caller("weak")
    assert [(warning.filename, warning.category) for warning in caught] == [(__file__, sf.WeakPrivacy)]
