"""What an earlier version wrote is read, means the same, and is not paid for twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from compatibility import workspace
from compatibility.workspace import substance
from sfumato.curator.release_kinds import all_kinds
from sfumato.privacy import codec
from sfumato.release.releasing import StoredResult
from sfumato.reports import verify_bundle
from sfumato.reports.bundles import read_bundle

INHERITING = {"running-answer/1"}
"""A field that is added at the end of an answer comes before the own fields of this one; texts name fields, so their
order there matters to no reader."""
BOUGHT_ANEW = {"mwem", "synthesis", "session"}
"""Releases of several steps are not stored as one answer."""


def kept(file: str) -> Any:
    return json.loads((workspace.KEPT / f"{file}.json").read_text())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workspace.copied_workspace(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def curators(copy: Path) -> Iterator[tuple[sf.Curator, sf.Curator]]:
    with workspace.curators(copy) as opened:
        yield opened


def test_every_bought_answer_is_free_and_the_same(curators: tuple[sf.Curator, sf.Curator]) -> None:
    lines = [len(list(curator.history())) for curator in curators]
    for name, buy in workspace.proposals(*curators).items():
        if name not in BOUGHT_ANEW:
            assert substance(workspace.written_form(buy())) == substance(kept("answers")[name]), name
    assert [len(list(curator.history())) for curator in curators] == lines


def test_an_answer_of_every_kind_is_kept() -> None:
    newer = json.loads((workspace.KEPT.parent / "inference" / "answers.json").read_text())
    answered = {json.loads(text)["kind"] for text in kept("answers").values()}
    answered |= {json.loads(each["answer"])["kind"] for each in newer.values()}
    kinds = {
        codec.kind_of_class(kind.answer_class()) for kind in all_kinds().values() if _is_stored(kind.answer_class())
    }
    assert kinds <= answered


@pytest.mark.parametrize("name", ["survival", "test", "logistic"])
def test_answers_of_kinds_that_were_added_later_are_read(name: str) -> None:
    """They are computed from the answers of questions, which the ledger of the workspace holds."""
    text = kept("answers")[name]
    assert codec.loads(text).to_json() == text
    assert str(codec.loads(text))


def _is_stored(answer: type) -> bool:
    return answer in codec.kind_by_registered_class()


def test_bodies_of_every_kind_propose_the_same_release(curators: tuple[sf.Curator, sf.Curator]) -> None:
    served = {kind.name for kind in all_kinds().values() if "rest" not in kind.refusal_by_skin}
    assert served - {"degrees", "linked", "survival", "test"} <= set(workspace.BODIES)
    assert workspace.spec_identities(curators[0]) == kept("bodies")


def test_moments_that_were_bought_give_the_same_table(curators: tuple[sf.Curator, sf.Curator]) -> None:
    newer = json.loads((workspace.KEPT.parent / "inference" / "answers.json").read_text())
    clinic, _ = curators
    proposals = {
        "regress": clinic.regress("cost ~ age + region + age:region", "visits"),
        "components": clinic.components(["age", "cost"], "visits"),
    }
    for name, proposal in proposals.items():
        assert proposal.identity == newer[name]["identity"]
        answer = codec.loads(newer[name]["answer"])
        assert substance(answer.to_json()) == substance(newer[name]["answer"])
        moments = codec.loads(newer[name]["moments"])
        result = StoredResult(moments, 1, datetime.now(UTC), "", free=True)
        rebuilt = proposal.build_answer(result, "0.95")
        column = "coefficient" if name == "regress" else "variance"
        assert rebuilt.column(column) == pytest.approx(answer.column(column), rel=1e-6)
        lows, kept_lows = ([low for low, _ in each.intervals[column]] for each in (rebuilt, answer))
        assert lows == pytest.approx(kept_lows, rel=1e-6)


def test_plan_hashes_are_the_same() -> None:
    hashes = kept("hashes")
    assert len(hashes) > 60
    now = workspace.plan_hashes()
    assert {text: now.get(text) for text in hashes} == hashes


def test_written_fields_are_the_same() -> None:
    """A field may be added with a default, at the end, where a subclass has its own after it; nothing that was written
    is renamed, moved or left out.
    """
    now = workspace.written_fields()
    for kind, kept_fields in kept("fields").items():
        fields = [field for field in kept_fields if ", computed" not in field]  # these are in no text
        added = now[kind][len(fields) :]
        if kind in INHERITING:
            added = [field for field in now[kind] if unnamed(field) not in map(unnamed, fields)]
        written = [field for field in now[kind] if field not in added]
        assert list(map(unnamed, written)) == list(map(unnamed, fields)), kind
        assert all(" = " in field for field in added), kind


def unnamed(field: str) -> str:
    """Leave out the names of classes in a default: they are written nowhere."""
    return re.sub(r"\b[A-Z]\w*\(", "(", field)


@pytest.mark.parametrize("name", ["marginals", "histogram", "mwem", "synthesis"])
def test_published_files_are_read(name: str) -> None:
    path = workspace.KEPT / f"{name}.sfu"
    assert substance(workspace.written_form(sf.synopsis(path))) == substance(kept("answers")[name])


def test_a_signed_bundle_is_read_and_verified() -> None:
    path = workspace.KEPT / "bundle.zip"
    assert verify_bundle(path).proved
    bundled = [substance(answer.to_json()) for answer in read_bundle(path).answers]
    bought = [substance(text) for text in kept("answers").values()]
    assert len(bundled) > len(workspace.QUESTIONS)
    assert all(answer in bought for answer in bundled)
