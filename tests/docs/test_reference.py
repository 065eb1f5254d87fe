"""The pages that are made from docstrings are up to date, and leave nothing public out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import sfumato as sf
from sfumato.cli import main

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_python", ROOT / "docs/reference/make_python.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(made: ModuleType) -> dict[str, str]:
    return dict(made.pages())


def test_the_pages_are_up_to_date(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert (ROOT / "docs/reference" / name).read_text() == text, (
            "run .venv/bin/python docs/reference/make_python.py"
        )


def test_everything_exported_is_there(pages: dict[str, str]) -> None:
    text = "\n".join(pages.values())
    missing = [name for name in sf.__all__ if name != "__version__" and f"## sf.{name}\n" not in text]
    assert not missing
    assert all(f"### sf.theorems.{name}\n" in text for name in sf.theorems.__all__)


def test_every_command_is_there(pages: dict[str, str]) -> None:
    page = pages["commands.md"]
    assert all(f"## sfumato {name}\n" in page for name in main.list_commands(None))  # type: ignore[arg-type]
    assert "`--within [COLUMN=]NUMBER`" in page


def test_texts_of_fields_are_found_and_nothing_private_is_shown(pages: dict[str, str]) -> None:
    assert "**`.true_positive_rate`** The most true positives" in pages["python-privacy.md"]
    for page in pages.values():
        assert " object at 0x" not in page
        assert "**`._" not in page


def test_letters_that_markdown_reads_are_kept(made: ModuleType) -> None:
    assert made._inline("a * b is ``x * y`` <z>") == "a \\* b is `x * y` &lt;z>"
