"""Clicks become SQL that the curator understands, whatever tables and columns are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.pages.test_hostile_texts import TEXTS, write_policy
from sfumato.curator.describing import open_without_data
from sfumato.curator.policy_account import read_policy
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.policy.public_faces import PublicFace
from sfumato.server.pages.ask_pages import BuilderChoices, build_sql, builder_options
from sfumato.server.pages.rendering import SentForm, mark_word_from, refused_character_index


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("hostile"))


def test_every_click_is_understood(hostile: Path) -> None:
    policy = read_policy(hostile)
    face: PublicFace = policy.public_face(None)
    offered = builder_options(face, BuilderChoices(), opened=True)
    (measured,), (filtered,) = offered.measured.values(), offered.filters.values()
    keys = next(iter(offered.keys.values()))
    with open_without_data(policy) as alone:
        for each in offered.measures:
            sql = build_sql(face, BuilderChoices("0", each.value, measured[0].value, (keys[0].value,)))
            assert alone.question(sql).error(epsilon=1).rows()
        for text in TEXTS:
            sql = build_sql(face, BuilderChoices("0", "rows", "", (), filtered[0].value, "ne", text))
            assert alone.question(sql).error(epsilon=1).accepted
        for column in filtered[1:]:
            sql = build_sql(face, BuilderChoices("0", "rows", "", (), column.value, "ge", "-3.5"))
            assert alone.question(sql).error(epsilon=1).accepted


@pytest.mark.parametrize(
    "clicked",
    [
        BuilderChoices("7"),
        BuilderChoices("0", "steal"),
        BuilderChoices("0", "sum"),
        BuilderChoices("0", "sum", "1.0"),
        BuilderChoices("0", "rows", "", ("0.99",)),
        BuilderChoices("0", "rows", "", (), "0.0", "; DROP", "x"),
    ],
)
def test_what_no_page_offers_is_refused(hostile: Path, clicked: BuilderChoices) -> None:
    with pytest.raises(InvalidParameter):
        build_sql(read_policy(hostile).public_face(None), clicked)


def test_a_form_is_read_as_it_was_sent() -> None:
    form = SentForm({"sql": ("SELECT 1\r\nFROM t",), "key": ("a", "b"), "x": (" y ",)})
    assert form.text("sql") == "SELECT 1\nFROM t"
    assert (form.values("key"), form.value("key"), form.value("x"), form.value("none")) == (("a", "b"), "b", "y", "")


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT COUNT(*) AS n\nFROM nothing", "nothing"),
        ('SELECT COUNT(*) AS n,\n  AVG("no ""such") AS a FROM "t"', '"no ""such"'),
        ("SELECT COUNT(*) AS n FROM", None),
        ("", None),
    ],
)
def test_a_refusal_is_underlined_at_its_word(tmp_path: Path, sql: str, word: str | None) -> None:
    (tmp_path / "p.toml").write_text(
        '[unit]\nname = "u"\nbudget = { epsilon = 1 }\n[tables.t]\nsource = "t.csv"\nid = "i"\nmax_rows = 1\n'
        "[tables.t.columns]\nc = { values = [1, 2] }\n"
    )
    with open_without_data(read_policy(tmp_path / "p.toml")) as alone, pytest.raises(SfumatoError) as refused:
        alone.question(sql)
    part = mark_word_from(sql, refused_character_index(refused.value, sql))
    if word is not None:
        assert part is not None
        assert part.marked == word
    if part is not None:
        assert part.before + part.marked + part.after == sql
