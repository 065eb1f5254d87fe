"""``sfumato docs`` finds, lists, prints and opens pages, in a checkout and where it is installed."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import click
import pytest

from cli.running import run
from cli.terminal import Terminal
from sfumato.manual import markdown_pages
from sfumato.manual.search import MISTAKES, refusal_rules

ROOT = Path(__file__).parents[3]


def test_without_a_word_it_lists_where_to_start() -> None:
    done = run("docs")
    assert done.exit_code == 0
    shown = markdown_pages.read_pages()[0].markdown
    for section in markdown_pages.reader_menus(shown) or markdown_pages.menu(shown):
        assert section.heading in done.output
        for title, path in section.entries:
            assert f"{path.removesuffix('.md')} " in done.output
            assert title in done.output
    assert done.output.endswith("Find a page:   sfumato docs WORD\n")


def test_the_doors_alone_are_listed_where_there_are_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    front_page = "# Home\n\n## I own data\n\n- [Serve](serve.md)\n\n## All the rest\n\n- [Noise](noise.md)\n"
    (tmp_path / "README.md").write_text(front_page)
    monkeypatch.setattr(markdown_pages, "_INSTALLED", tmp_path)
    assert run("docs").output.startswith("I own data\n  serve  Serve\n\nPrint a page:")


@pytest.mark.parametrize("name", ["exit-codes", "reference/exit-codes", "docs/reference/exit-codes.md"])
def test_a_page_is_printed_by_its_name(name: str) -> None:
    assert run("docs", name).output.strip() == (ROOT / "docs/reference/exit-codes.md").read_text().strip()


def test_a_word_that_finds_one_page_best_prints_it() -> None:
    title, _, _ = (ROOT / "docs/how-to/medians.md").read_text().partition("\n")
    assert run("docs", "percentiles").output.startswith(title)


def test_a_message_prints_what_to_do_about_it() -> None:
    (page,) = (page for page in markdown_pages.read_pages() if page.path == MISTAKES)
    section = next(section for section in page.sections if refusal_rules(section))
    done = run("docs", refusal_rules(section)[0])
    whole_page = "The whole page: sfumato docs reference/mistakes"
    assert done.output == f"# {page.title}\n\n### {section.heading}\n\n{section.text}\n\n{whole_page}\n"


def test_several_hits_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("README", *"abcdefghi"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n\nA sentence about the budget of {name}. More.\n")
    monkeypatch.setattr(markdown_pages, "_INSTALLED", tmp_path)
    *hits, blank, hint = run("docs", "budget").output.splitlines()
    assert len(hits) == 2 * 8
    assert hits[2:4] == ["a  Page a", "    A sentence about the budget of a."]
    assert (blank, hint) == ("", "Print one of them:  sfumato docs README")


def test_what_no_page_has_is_refused() -> None:
    done = run("docs", "zzzz")
    assert done.exit_code == 1
    assert "no page contains these words" in done.output


def test_a_page_is_opened_in_the_site_if_that_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", opened.append)
    monkeypatch.setattr(markdown_pages, "site_folder", lambda: tmp_path)
    refused = run("docs", "--open", "exit-codes")
    assert refused.exit_code == 1
    assert "scripts/site" in refused.output
    assert not opened
    (tmp_path / "reference").mkdir()
    for name in ("index.html", "reference/exit-codes.html"):
        (tmp_path / name).touch()
    assert run("docs", "--open", "exit-codes").exit_code == run("docs", "--open").exit_code == 0
    assert opened == [f"{tmp_path.as_uri()}/reference/exit-codes.html#exit-codes", f"{tmp_path.as_uri()}/index.html"]


def test_a_long_page_goes_through_the_pager_of_a_terminal(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\necho "the pager has:"\nexec cat "$@"\n')
    pager.chmod(0o755)
    with Terminal("docs", "medians", environment={"PAGER": str(pager)}) as terminal:
        terminal.expect("the pager has:")
        terminal.expect("QUANTILE_CONT")


def test_every_page_is_installed_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the wheel takes along, laid out as it is installed, holds every page of the checkout."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for source, target in build["force-include"].items():
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / source, tmp_path / target)
    monkeypatch.setattr(markdown_pages, "_INSTALLED", tmp_path / "sfumato/manual/markdown")
    assert [page.path for page in markdown_pages.read_pages()] == [
        page.path for page in markdown_pages.read_pages(ROOT / "docs")
    ]
    assert run("docs", "exit-codes").output.startswith("# Exit codes")
