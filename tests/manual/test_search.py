"""The search of the documentation: whole words and beginnings, titles first, synonyms that lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.manual.markdown_pages import Page, groups_by_page, heading_anchor, menu, read_pages, reader_menus
from sfumato.manual.search import MISTAKES, Index, Synonym, build_index, read_synonyms, refusal_rules, tokenize

FRONT_PAGE = """\
# Home

## I own data

- [Serve](how-to/serve.md)

## I ask questions

- [Windows](how-to/windows.md)
- [Serve, again](how-to/serve.md)

## Theory

- [Commands](reference/commands.md)
- [Noise](explanation/noise.md)
"""


@pytest.fixture(scope="module")
def documentation() -> Index:
    return build_index(read_pages())


def index_of(synonyms: dict[str, Synonym] | None = None, **texts: str) -> Index:
    return build_index(tuple(Page(f"{name}.md", text) for name, text in texts.items()), synonyms or {})


def found(index: Index, query: str) -> list[str]:
    return [hit.page.path.removesuffix(".md") for hit in index.search(query)]


def test_words_are_matched_whole_and_by_their_beginning() -> None:
    index = index_of(flags="# Options\n\nEvery flag has a name.", windows="# Windows\n\n`LAG(x)` and strptime.")
    assert found(index, "LAG") == ["windows"]
    assert found(index, "fla") == ["flags"]
    assert found(index, "strptim") == ["windows"]
    assert found(index, "l") == []


def test_a_word_within_another_is_not_found_even_beside_it() -> None:
    """In the order of words, ``unumlaut`` stands right after what begins as asked."""
    index = index_of(one="# One\n\numlaut and unumlaut", two="# Two\n\nunumlaut")
    assert found(index, "umlaut") == ["one"]


def test_a_whole_word_comes_before_the_beginning_of_another() -> None:
    index = index_of(one="# One\n\nA counter.", two="# Two\n\nA count.", three="# Three\n\nMany counts.")
    assert found(index, "count") == ["two", "three", "one"]


def test_an_ending_that_no_word_has_is_dropped() -> None:
    index = index_of(one="# One\n\nA percentile.", two="# Two\n\nTo calculate.")
    assert found(index, "percentiles") == ["one"]
    assert found(index, "calculating") == ["two"]
    assert found(index, "calendar") == []


def test_a_title_comes_before_a_heading_before_text() -> None:
    index = index_of(
        text="# Words\n\nnoise noise noise noise",
        heading="# Other\n\nNothing.\n\n## About noise\n\nLong.",
        title="# Noise\n\nMuch.",
    )
    assert found(index, "noise") == ["title", "heading", "text"]


def test_a_section_with_all_words_comes_before_one_with_one_of_them_often() -> None:
    index = index_of(one="# One\n\nmean mean mean", two="# Two\n\nThe mean of a cohort.", three="# Three\n\nNothing.")
    assert found(index, "mean cohort") == ["two", "one"]


def test_a_page_is_found_once_at_its_best_section() -> None:
    (hit,) = index_of(page="# Page\n\nA lag.\n\n## Lag\n\nThe lag itself.").search("lag")
    assert hit.section.anchor == "lag"


def test_of_code_the_words_of_sql_are_found() -> None:
    index = index_of(page="# Page\n\n```python\n>>> ask('SELECT LAG(x)', wanted=1)\n```\n")
    assert found(index, "lag") == ["page"]
    assert found(index, "wanted") == []


def test_synonyms_find_other_words_and_put_pages_first() -> None:
    synonyms = {"percentile": Synonym(words=("quantile",)), "gdpr rules": Synonym(pages=("promise.md#kept", "gone.md"))}
    index = index_of(
        synonyms,
        promise="# Promise\n\nText.\n\n## Kept\n\nText.",
        medians="# Medians\n\nA quantile.",
        law="# Rules of GDPR\n\nLaw.",
    )
    assert found(index, "percentiles") == ["medians"]
    assert found(index, "the GDPR rules") == ["promise", "law"]
    assert found(index, "gdpr rule") == ["promise", "law"], "the last word may be unfinished"
    assert found(index, "gdpr") == ["law"], "but only the last"


def test_every_synonym_leads_somewhere(documentation: Index) -> None:
    wrong = [
        f"{phrase}: {target}"
        for phrase, synonym in read_synonyms().items()
        for target in (*synonym.words, *synonym.pages)
        if target not in documentation.section_weights and target not in documentation.section_numbers
    ]
    assert not wrong, "synonyms.toml names what no page has:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("LAG", "how-to/per-person"),
        ("percentiles", "how-to/medians"),
        ("GDPR", "explanation/promise"),
        ("date format", "reference/policy"),
        ("top-k", "how-to/values"),
        ("epsilon", "explanation/choosing-epsilon"),
        ("exit code 3", "reference/exit-codes"),
        ("how do I join tables", "how-to/join-tables"),
        ("std", "how-to/spread"),
        ("average", "reference/what-can-be-asked"),
        ("dedupe", "how-to/values"),
        ("rolling average", "how-to/time-series"),
        ("cohort", "how-to/per-person"),
        ("upsert", "how-to/growing-tables"),
    ],
)
def test_what_readers_type_finds_the_page(documentation: Index, query: str, path: str) -> None:
    assert path in found(documentation, query)[:4], f"{query!r} finds {found(documentation, query)[:4]}, not {path}"


def test_every_message_on_the_page_of_mistakes_finds_it_first(documentation: Index) -> None:
    (page,) = (page for page in documentation.pages if page.path == MISTAKES)
    messages = [message for section in page.sections for message in refusal_rules(section)]
    assert len(messages) >= 50
    first = {message: next(iter(found(documentation, message)), "nothing") for message in messages}
    wrong = [f"{message!r} finds {path}" for message, path in first.items() if path != MISTAKES.removesuffix(".md")]
    assert not wrong, "\n".join(wrong)


def test_groups_are_the_doors_of_the_front_page() -> None:
    assert [section.heading for section in reader_menus(FRONT_PAGE)] == ["I own data", "I ask questions"]
    assert len(menu(FRONT_PAGE)) == 3
    assert groups_by_page(FRONT_PAGE) == {
        "how-to/serve.md": "I own data",
        "how-to/windows.md": "I ask questions",
        "reference/commands.md": "Reference",
        "explanation/noise.md": "Theory",
    }


def test_the_lists_of_the_front_page_are_not_searched() -> None:
    pages = (Page("README.md", FRONT_PAGE), Page("how-to/windows.md", "# Windows\n\nText."))
    index = build_index(pages, {})
    assert found(index, "windows") == ["how-to/windows"]
    assert index.search("windows")[0].group == "I ask questions"


def test_lines_of_code_are_no_headings(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Home\n\n```sh\n# a remark\n```\n\n## Same\n\nOne.\n\n## Same\n")
    (page,) = read_pages(tmp_path)
    assert [section.anchor for section in page.sections] == ["home", "same", "same_1"]
    assert page.sections[1].text == "One."
    assert heading_anchor("`sf.Curve` — ε?") == "sfcurve"


def test_words_are_compared_without_case_and_accents() -> None:
    assert tokenize("Rényi's ÉTÉ, 10 of APPROX_TOP_K") == ["renyi", "ete", "approx", "top", "k"]
