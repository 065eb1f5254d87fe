"""Files of models: whole, without choices, checked byte by byte, and read without data."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from publish.models import synthetic
from sfumato.errors import SynopsisDamaged
from sfumato.ledger import Charged
from sfumato.mechanisms import Gaussian
from sfumato.publish.files import model_files
from sfumato.publish.files.sealed_files import MANIFEST, build_zip, iterate_members, seal_manifest, sha256_hex
from sfumato.publish.synthetic import Synthetic
from sfumato.release.prices import Price

GOLDEN = Path(__file__).parent.parent / "model.sfu"
SMALL: dict[str, Any] = {"sex": {"values": ["f", "m"]}, "smokes": {"type": "boolean"}}


def small(**more: Any) -> Synthetic:
    return synthetic(columns=SMALL, sets=[(), (0,), (1,), (0, 1)], impossible=["sex = 'f' AND smokes"], **more)


def content(made: Synthetic) -> bytes:
    return model_files.to_bytes((made.released, made.model, made.steps, made.receipt))


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    made = synthetic()
    made.save(tmp_path / "people.sfu")
    found = sf.synopsis(tmp_path / "people.sfu")
    assert isinstance(found, sf.Synthetic)
    assert content(found) == (tmp_path / "people.sfu").read_bytes()
    for places in [(0, 1), (2, 6), (0, 3, 5)]:
        assert np.array_equal(found.model.marginal(places), made.model.marginal(places))
    question = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    assert found.sql(question).rows == made.sql(question).rows
    assert found.sample(100).schema == made.table().schema
    assert str(found.quality()) == str(made.quality())


def test_the_golden_file_is_read_as_ever() -> None:
    found = sf.synopsis(GOLDEN)
    assert isinstance(found, Synthetic)
    assert found.columns == ("sex", "smokes")
    assert content(found) == GOLDEN.read_bytes()
    assert found.model.marginal((0, 1))[0, 1] == 0
    assert round(found.total) == 3002
    assert not [row for row in found.table().to_pylist() if row["sex"] == "f" and row["smokes"]]
    assert found.verify().holds


def test_every_edited_byte_is_found() -> None:
    whole = content(small())
    model_files.read(whole)
    for place in range(0, len(whole), max(1, len(whole) // 400)):
        edited = bytearray(whole)
        edited[place] ^= 1
        with pytest.raises(SynopsisDamaged):
            model_files.read(bytes(edited))
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        with pytest.raises(SynopsisDamaged):
            model_files.read(whole[:length])


def rewritten(change: Any, potentials: Any = None) -> bytes:
    """A file that was edited with care: every hash is right."""
    members = dict(iterate_members(content(small()), ""))
    manifest = json.loads(members[MANIFEST])
    change(manifest)
    written = model_files._POTENTIALS.to_bytes
    numbers = members["potentials.arrow"] if potentials is None else written(np.array(potentials, float))
    manifest["members"] = {"potentials.arrow": sha256_hex(numbers), MANIFEST: ""}
    text = seal_manifest(json.dumps(manifest, separators=(",", ":")))
    return build_zip({MANIFEST: text.encode(), "potentials.arrow": numbers})


CHANGES = {
    "newer": lambda m: m.update(format=2),
    "never written": lambda m: m.update(format=0),
    "no tree": lambda m: m.update(cliques=[[0]], parents=[-1]),
    "a loop": lambda m: m.update(cliques=[[0, 1]], parents=[0]),
    "parents": lambda m: m.update(parents=[-1, -1]),
    "a place": lambda m: m.update(potentials=[[0, 7]]),
    "twice": lambda m: m.update(potentials=[*m["potentials"], m["potentials"][0]]),
    "fewer": lambda m: m.update(potentials=m["potentials"][:-1]),
    "steps": lambda m: m.update(steps=["x"]),
    "receipt": lambda m: m.update(receipt=m["released"]),
    "total": lambda m: m["released"].update(total="Infinity"),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_files_that_say_nonsense_are_refused_before_anything_is_made(name: str) -> None:
    model_files.read(rewritten(lambda _: None))
    with pytest.raises(SynopsisDamaged) as refused:
        model_files.read(rewritten(CHANGES[name]))
    assert name != "newer" or "newer" in refused.value.fix


def test_sizes_are_checked_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    unread = lambda *_: pytest.fail("numbers are read after sizes are known")  # noqa: E731
    monkeypatch.setattr("sfumato.publish.files.sealed_files.NumberMember.read", unread)
    monkeypatch.setattr(model_files, "_MAX_CELLS", 8)
    with pytest.raises(SynopsisDamaged, match="more than 8 cells"):
        model_files.read(content(small()))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_no_logarithms_are_refused(bad: float) -> None:
    count = sum(each.logs.size for each in small().model.potentials)
    model_files.read(rewritten(lambda _: None, [0.0] * count))
    with pytest.raises(SynopsisDamaged):
        model_files.read(rewritten(lambda _: None, [0.0] * (count - 1) + [bad]))
    with pytest.raises(SynopsisDamaged):
        model_files.read(rewritten(lambda _: None, [0.0] * (count + 1)))


def test_files_of_both_kinds_are_read_as_what_they_are(tmp_path: Path) -> None:
    small().save(tmp_path / "model.sfu")
    assert isinstance(sf.synopsis(tmp_path / "model.sfu"), sf.Synthetic)
    assert isinstance(sf.synopsis(Path(__file__).parent.parent / "people.sfu"), sf.Synopsis)


def test_files_do_not_say_who_bought_or_what_is_left() -> None:
    made = small()
    secret = replace(made.receipt, share="ana", remaining="0.123")
    bought = replace(made.released, purchase=replace(made.released.purchase, salt="5a17"))
    kept = Synthetic(bought, made.model, secret, made.steps)
    assert not any(each in content(kept) for each in (b"ana", b"0.123", b"5a17"))


# ── checking ───────────────────────────────────────────────────────────────────────────────────


def test_the_charge_is_added_up_from_the_steps() -> None:
    made = small()
    found = made.verify()
    assert found.holds
    rho = 4 * Fraction(1, 2 * 25) + Fraction(1, 800)
    assert found.checks[0].finding == f"ρ = {float(rho):.6g}, from 5 steps"
    pure = small(laplace=True).verify()
    assert pure.holds
    assert pure.checks[0].finding == f"ε = {float(Fraction(4, 5) + Fraction(1, 10)):.6g}, from 5 steps"


@pytest.mark.parametrize(
    "change",
    [
        lambda made: replace(made, released=replace(made.released, price=Price(rho="0.01"))),
        lambda made: replace(made, steps=made.steps[1:]),
        lambda made: replace(made, steps=(Charged(Gaussian(4), 1), *made.steps[1:])),
        lambda made: replace(made, receipt=replace(made.receipt, guarantee="ε = 1")),
    ],
)
def test_what_does_not_add_up_is_told(change: Any) -> None:
    assert not change(small()).verify().holds


def test_a_rehearsal_was_not_bought() -> None:
    assert replace(small(), steps=()).verify().checks[0].holds is None
