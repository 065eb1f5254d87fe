"""``sfumato docs`` and ``completion``: pages of the documentation, and what a shell completes."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

if TYPE_CHECKING:
    from sfumato.manual.markdown_pages import MenuSection, Page
    from sfumato.manual.search import Hit

_MAX_HITS = 8
_CLEARLY_BEST = 2
"""A page that scores this many times as much as the next one is printed, not listed."""
_LONG_PAGE = 1500
"""Words above which only the section that was found is printed."""


@click.command(short_help="Find and print a page of the documentation.", epilog=EXIT_CODES_HELP)
@click.argument("words", nargs=-1, metavar="[WORD]")
@click.option("--open", "in_browser", is_flag=True, help="Open the page in a browser, if the site was built.")
def docs_command(words: tuple[str, ...], in_browser: bool) -> None:
    """Print the page of the documentation that WORD names or finds, or list where to start.

    The pages are part of the installation: nothing is fetched. Words are found whole or by their beginning, in titles
    first. If no page is clearly the best, the best eight are listed; name one of them by its path. Type an error
    message to find what to do about it.

    \b
    Examples:
      sfumato docs
      sfumato docs percentile
      sfumato docs how-to/serve
      sfumato docs "this is not valid SQL"
    """
    from sfumato.manual.markdown_pages import read_pages

    pages = read_pages()
    if not words:
        _open_site("index.html") if in_browser else _print_starting_points(pages)
        return
    hits = _find_pages(pages, " ".join(words))
    if in_browser:
        _open_site(f"{hits[0].page.path.removesuffix('.md')}.html", hits[0].section.anchor)
    elif len(hits) == 1 or hits[0].score >= _CLEARLY_BEST * hits[1].score:
        _print_page(hits[0])
    else:
        _print_hits(hits[:_MAX_HITS])


def _find_pages(pages: tuple[Page, ...], text: str) -> list[Hit]:
    """Return the page of this path or file name, else the pages that the search finds."""
    from sfumato.error_facts import shorten
    from sfumato.errors import SfumatoError
    from sfumato.manual.search import Hit, build_index

    path = text.removeprefix("docs/").removesuffix(".md")
    path_matches = [page for page in pages if path in (_page_path(page), _page_path(page).rpartition("/")[2])]
    hits = [Hit(page, page.sections[0], "", 1) for page in path_matches] or build_index(pages).search(text)
    if not hits:
        raise SfumatoError(
            "no page contains these words", place=shorten(text), fix="try another word, or list the pages: sfumato docs"
        )
    return hits


def _page_path(page: Page) -> str:
    return page.path.removesuffix(".md")


def _print_starting_points(pages: tuple[Page, ...]) -> None:
    from sfumato.manual.markdown_pages import menu, reader_menus

    front_page = pages[0].markdown
    for section in reader_menus(front_page) or menu(front_page):
        _print_section(section)
    click.echo("Print a page:  sfumato docs PATH\nFind a page:   sfumato docs WORD")


def _print_section(section: MenuSection) -> None:
    click.secho(section.heading, bold=True)
    width = max(len(path) for _, path in section.entries)
    for title, path in section.entries:
        click.echo(f"  {path.removesuffix('.md'):<{width - 1}}{title}")
    click.echo()


def _print_hits(hits: list[Hit]) -> None:
    for hit in hits:
        heading = "" if hit.section.heading == hit.page.title else f": {hit.section.heading}"
        click.echo(f"{click.style(_page_path(hit.page), bold=True)}  {hit.page.title}{heading}")
        click.echo(f"    {hit.page.summary}")
    click.echo(f"\nPrint one of them:  sfumato docs {_page_path(hits[0].page)}")


def _print_page(hit: Hit) -> None:
    """Print a page, or of a long one the section; in a terminal rendered, and through a pager if it does not fit."""
    page, section = hit.page, hit.section
    text = page.markdown
    if section is not page.sections[0] and len(text.split()) > _LONG_PAGE:
        whole = f"The whole page: sfumato docs {_page_path(page)}"
        text = f"# {page.title}\n\n{'#' * section.level} {section.heading}\n\n{section.text}\n\n{whole}\n"
    if not sys.stdout.isatty():
        click.echo(text.strip())
        return
    rendered = _render(text)
    fits = rendered.count("\n") < shutil.get_terminal_size().lines
    click.echo(rendered) if fits else click.echo_via_pager(rendered)


def _render(text: str) -> str:
    """Return Markdown as a terminal shows it."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.capture() as rendered:
        console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
    return rendered.get()


def _open_site(path: str, anchor: str = "") -> None:
    from sfumato.errors import SfumatoError
    from sfumato.manual.markdown_pages import site_folder

    file = site_folder() / ("index.html" if path == "README.html" else path)
    if not file.exists():
        fix = "leave out --open to print the page, or build the site: run scripts/site in a checkout"
        raise SfumatoError("the documentation site is not built here", place="--open", fix=fix)
    click.launch(file.as_uri() + (f"#{anchor}" if anchor else ""))


_PROGRAM = "sfumato"
_VARIABLE = "_SFUMATO_COMPLETE"
"""The variable by which the script asks this program for completions, named as click derives it."""


@click.command(short_help="Print the completion script of bash, zsh or fish.", epilog=EXIT_CODES_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a script that lets SHELL complete commands, options and files of sfumato with Tab.

    \b
    Examples:
      eval "$(sfumato completion bash)"
      sfumato completion bash >> ~/.bashrc
      sfumato completion zsh >> ~/.zshrc
      sfumato completion fish > ~/.config/fish/completions/sfumato.fish
    """
    from click.shell_completion import get_completion_class

    from sfumato.cli import main

    completion_class = get_completion_class(shell)
    assert completion_class is not None, "every choice is a shell that click knows"
    click.echo(completion_class(main, {}, _PROGRAM, _VARIABLE).source())
