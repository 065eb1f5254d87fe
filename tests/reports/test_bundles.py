"""A bundle is refused when any byte of it is changed, and when its owner signed what does not add up."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import pytest

import sfumato as sf
from hostile_json import edits
from reports.accounts import PLAIN, QUESTION, SECRETS, asked
from sfumato.ledger.spending import read_cost, write_cost
from sfumato.privacy import Cost, codec
from sfumato.publish.files.sealed_files import build_zip
from sfumato.reports import PublicKey, SigningKey, bundle, bundles, verify_bundle
from sfumato.reports.account_reports import collect_report
from sfumato.reports.bundles import parse_bundle, read_bundle

Members = dict[str, bytes]


@pytest.fixture(scope="module")
def shown(policy: Path, key: SigningKey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "shown.zip"
    bundle(policy, key, path, questions=True)
    return path


@pytest.fixture(scope="module")
def hidden(policy: Path, key: SigningKey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "hidden.zip"
    bundle(policy, key, path)
    return path


def _members(path: Path) -> Members:
    with zipfile.ZipFile(path) as file:
        return {each.filename: file.read(each) for each in file.infolist()}


def _is_refused(content: bytes, path: Path) -> bool:
    try:
        parse_bundle(content, path)
    except sf.BundleDamaged:
        return True
    return False


def test_a_bundle_is_verified_and_says_what_that_proves(
    shown: Path, hidden: Path, key: SigningKey, policy: Path
) -> None:
    found = verify_bundle(shown, key.public, policy=policy, earlier=hidden)
    assert len(found.bundle.answers) == 3
    proved, unproved = " ".join(found.proved), " ".join(found.unproved)
    assert "the key you gave" in proved
    assert "Each shown question (3)" in proved
    assert "The ledger is intact" in proved
    assert "continues the earlier bundle" in proved
    assert "no other account exists" in unproved
    assert "Whose key it is" not in unproved
    alone = verify_bundle(hidden)
    assert "Each hidden question (3) is fixed by its salted hash" in " ".join(alone.proved)
    assert "Whose key it is" in " ".join(alone.unproved)
    assert "That the ledger agrees" in " ".join(alone.unproved)
    assert "Not proved:" in str(alone)


def test_nothing_of_a_hidden_question_is_told(hidden: Path, policy: Path, key: SigningKey, tmp_path: Path) -> None:
    content = hidden.read_bytes()
    assert not any(re.search(re.escape(each.encode()), content, re.I) for each in SECRETS)
    assert not any(name.startswith("answers/") for name in _members(hidden))
    number = next(each.number for each in collect_report(policy, questions=True).questions if each.question == PLAIN)
    bundle(policy, key, tmp_path / "one.zip", questions=[number])
    content = (tmp_path / "one.zip").read_bytes()
    written = json.dumps(QUESTION)[1:-1].encode()  # as a JSON text spells it
    assert written not in content
    assert not any(re.search(re.escape(each.encode()), content, re.I) for each in SECRETS)
    assert PLAIN.encode() in content
    lines = json.loads(_members(tmp_path / "one.zip")["chain.json"])["lines"]
    assert [each["number"] for each in lines if "parts" in each] == [number]


def test_every_byte_counts(shown: Path, tmp_path: Path, long: bool) -> None:
    content = shown.read_bytes()
    places = range(len(content)) if long else [*range(0, len(content), 41), *range(len(content) - 900, len(content))]
    target = tmp_path / "changed.zip"
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        assert _is_refused(bytes(changed), target), place


def test_every_byte_of_every_member_counts_in_a_whole_zip(shown: Path, tmp_path: Path, long: bool) -> None:
    """The zip around a changed member is written anew, with the checksums that belong to it."""
    members, target = _members(shown), tmp_path / "changed.zip"
    for name, content in members.items():
        step = 1 if long or len(content) < 400 else len(content) // 61
        for place in range(0, len(content), step):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            assert _is_refused(build_zip({**members, name: bytes(changed)}), target), (name, place)


def test_every_length_counts(shown: Path, tmp_path: Path) -> None:
    content, target = shown.read_bytes(), tmp_path / "cut.zip"
    for end in [0, 1, 3, 29, 30, 31, *range(40, len(content), 997), len(content) - 1]:
        assert _is_refused(content[:end], target), end
    for more in (b"\0", b"PK\x03\x04", content):
        assert _is_refused(content + more, target)
        assert _is_refused(more + content, target)


def _rezipped(members: Members, **changes: object) -> bytes:
    """The same members as another tool writes them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if changes.get("deflated") else zipfile.ZIP_STORED) as file:
        file.comment = b"hello" if changes.get("comment") else b""
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o120777 << 16 if changes.get("link") and name == "report.html" else 0
            entry.compress_type = file.compression
            file.writestr(entry, content)
    return out.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_other_zips_are_refused(shown: Path, tmp_path: Path) -> None:
    members, target = _members(shown), tmp_path / "other.zip"
    for change in ("deflated", "comment", "link"):
        assert _is_refused(_rezipped(members, **{change: True}), target), change
    for name in ("../evil", "/etc/passwd", "answers/more.json", "REPORT.HTML"):
        assert _is_refused(build_zip({**members, name: b"x"}), target), name
    for name in members:
        assert _is_refused(build_zip({each: members[each] for each in members if each != name}), target), name
    assert _is_refused(build_zip(dict(reversed(members.items()))), target)
    out = io.BytesIO(shown.read_bytes())
    with zipfile.ZipFile(out, "a") as file:
        file.writestr("report.html", "another page under the same name")
    assert _is_refused(out.getvalue(), target)


def test_a_zip_that_unpacks_to_very_much_is_not_unpacked(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("manifest.json", b"0" * (1 << 26))
    assert _is_refused(out.getvalue(), tmp_path / "bomb.zip")
    sparse = tmp_path / "sparse.zip"
    with sparse.open("wb") as file:
        file.truncate(1 << 32)
    with pytest.raises(sf.BundleDamaged, match="more than 268,435,456 bytes"):
        read_bundle(sparse)


def test_what_is_no_file_is_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    for place in (tmp_path, tmp_path / "missing.zip", tmp_path / "pipe.zip"):
        with pytest.raises(sf.SfumatoError, match="does not exist"):
            verify_bundle(place)


def test_another_key_is_another_signer(shown: Path, policy: Path, tmp_path: Path) -> None:
    other = SigningKey.new()
    bundle(policy, other, tmp_path / "other.zip")
    with pytest.raises(sf.BundleDamaged, match="it was signed with another key"):
        verify_bundle(shown, other.public)
    theirs = {**_members(shown), "signature.json": _members(tmp_path / "other.zip")["signature.json"]}
    assert _is_refused(build_zip(theirs), tmp_path / "mixed.zip")


def test_a_signature_of_something_else_is_none_of_a_bundle(shown: Path, key: SigningKey, tmp_path: Path) -> None:
    members = _members(shown)
    raw = bundles.BundleSignature(key.public.raw.hex(), key.sign(members["manifest.json"]).hex(), "Ed25519")
    assert _is_refused(build_zip({**members, "signature.json": codec.dumps(raw).encode()}), tmp_path / "raw.zip")
    upper = members["signature.json"].replace(b"Ed25519", b"ed25519")
    assert _is_refused(build_zip({**members, "signature.json": upper}), tmp_path / "upper.zip")
    digits = json.loads(members["signature.json"])
    digits["signature"] = digits["signature"].upper()
    text = json.dumps(dict(sorted(digits.items())), separators=(",", ":")).encode()
    assert _is_refused(build_zip({**members, "signature.json": text}), tmp_path / "digits.zip")


# ── what an owner signs must add up ────────────────────────────────────────────────────────────


def _signed_anew(path: Path, key: SigningKey, change: Callable[[bundles.BundleChain], bundles.BundleChain]) -> bytes:
    """The bundle with another chain, signed by its owner as if it were true."""
    members = _members(path)
    chain = codec.loads_as(bundles.BundleChain, members["chain.json"].decode())
    return _resigned({**members, "chain.json": codec.dumps(change(chain)).encode()}, key)


def _resigned(members: Members, key: SigningKey) -> bytes:
    stated = codec.loads_as(bundles.BundleManifest, members["manifest.json"].decode())
    beside = {name: each for name, each in members.items() if name not in ("manifest.json", "signature.json")}
    hashes = {name: hashlib.sha256(each).hexdigest() for name, each in beside.items()}
    return _sealed(codec.dumps(replace(stated, members=hashes, key=key.public.raw.hex())).encode(), members, key)


def _sealed(manifest: bytes, members: Members, key: SigningKey) -> bytes:
    """Sign a manifest, whatever it says."""
    beside = {name: each for name, each in members.items() if name not in ("manifest.json", "signature.json")}
    signature = bundles.BundleSignature(key.public.raw.hex(), key.sign(bundles.signed_text(manifest)).hex(), "Ed25519")
    return build_zip({"manifest.json": manifest, **beside, "signature.json": codec.dumps(signature).encode()})


@pytest.mark.parametrize(("name", "stride"), [("chain.json", 61), ("manifest.json", 17), ("answers/", 31)])
def test_a_bundle_that_is_edited_anywhere_and_signed_again_is_read_or_refused(
    shown: Path, key: SigningKey, tmp_path: Path, name: str, stride: int, long: bool
) -> None:
    members = _members(shown)
    name = next(each for each in members if each.startswith(name))
    refused = tried = 0
    for edit in islice(edits(members[name].decode()), 0, None, 1 if long else stride):
        text, tried = edit.text.encode(), tried + 1
        same = name == "manifest.json"
        content = _sealed(text, members, key) if same else _resigned({**members, name: text}, key)
        try:
            refused += _is_refused(content, tmp_path / "edited.zip")
        except Exception as error:
            pytest.fail(f"{edit}: {type(error).__name__}: {error}")
    assert refused > tried / 2


def _changed(number: int, **fields: object) -> Callable[[bundles.BundleChain], bundles.BundleChain]:
    return lambda chain: replace(
        chain, lines=tuple(replace(each, **fields) if each.number == number else each for each in chain.lines)
    )


def _cheaper(chain: bundles.BundleChain) -> bundles.BundleChain:
    """Every charge cost half, and the totals fit."""
    spent, lines = Cost(0, None, 0), []
    for line in chain.lines:
        cost = read_cost(line.cost)
        cost = replace(cost, pure=(cost.pure or 0) // 2)
        spent += cost
        lines.append(replace(line, cost=write_cost(cost), spent=write_cost(spent)))
    return replace(chain, lines=tuple(lines))


def test_untruths_that_are_signed_are_found(shown: Path, key: SigningKey, tmp_path: Path) -> None:
    target, found = tmp_path / "untrue.zip", read_bundle(shown)
    target.write_bytes(_signed_anew(shown, key, lambda chain: chain))
    assert read_bundle(target).chain == found.chain
    charge = next(each for each in found.chain.lines if each.line_kind == "charge")
    other = next(each for each in found.chain.lines if each.question == PLAIN)
    untruths = {
        "is not the total before it plus its cost": _changed(charge.number, cost="0 0 0"),
        "does not follow from its mechanisms": _cheaper,
        "salted hash": _changed(charge.number, question=other.question),
        "not the question": _changed(charge.number, asked="0" * 64),
        "without its salt": _changed(charge.number, salt=""),
        "has two different hashes in chain.json": _changed(charge.number, hash="0" * 64),
        "does not end": lambda chain: replace(chain, lines=chain.lines[:-1]),
        "occurs twice": lambda chain: replace(chain, hashes=(*chain.hashes[:-2], *chain.hashes[-1:] * 2)),
        "older than": _changed(charge.number, time="2001-01-01T00:00:00+00:00"),
        "does not match an answer in chain.json": _changed(charge.number + 1, line_kind="stopped"),
        "cannot be read": _changed(charge.number, cost="x"),
    }
    for why, change in untruths.items():
        target.write_bytes(_signed_anew(shown, key, change))
        with pytest.raises(sf.BundleDamaged) as refused:
            read_bundle(target)
        if why != "not the question":
            assert why in refused.value.rule, why


def test_more_than_the_budget_is_found(hidden: Path, key: SigningKey, tmp_path: Path) -> None:
    def dear(chain: bundles.BundleChain) -> bundles.BundleChain:
        lines, spent = [], Cost(0, None, 0)
        for line in chain.lines:
            cost = read_cost(line.cost)
            cost = Cost((cost.pure or 0) * 9, None if cost.renyi is None else cost.renyi * 9, cost.failure)
            spent += cost
            lines.append(replace(line, cost=write_cost(cost), spent=write_cost(spent)))
        return replace(chain, lines=tuple(lines))

    (tmp_path / "dear.zip").write_bytes(_signed_anew(hidden, key, dear))
    with pytest.raises(sf.BundleDamaged, match="its costs add up to more than the budget"):
        read_bundle(tmp_path / "dear.zip")


@pytest.fixture(scope="module")
def thirds(key: SigningKey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of an account that paid a third and a seventh."""
    folder = tmp_path_factory.mktemp("thirds")
    policy = sf.example(folder / "flights")
    with sf.open(policy) as flights:
        for price in ("1/3", "1/7"):
            flights.sql(PLAIN).release(epsilon=price, fresh=True)
    bundle(policy, key, folder / "thirds.zip", questions=True)
    return folder / "thirds.zip"


def _costing(change: Callable[[Cost], Cost]) -> Callable[[bundles.BundleChain], bundles.BundleChain]:
    def changed(chain: bundles.BundleChain) -> bundles.BundleChain:
        spent, lines = Cost(0, None, 0), []
        for line in chain.lines:
            cost = change(read_cost(line.cost))
            spent += cost
            lines.append(replace(line, cost=write_cost(cost), spent=write_cost(spent)))
        return replace(chain, lines=tuple(lines))

    return changed


def test_fractions_are_told_and_verified(thirds: Path, key: SigningKey, tmp_path: Path) -> None:
    """Also those that an earlier version has rounded up to whole units, and none that are rounded down."""
    costs = [read_cost(each.cost).amounts["pure"] for each in read_bundle(thirds).chain.lines]
    assert list(filter(None, costs)) == [Fraction(1, 3), Fraction(1, 7)]
    earlier, down = tmp_path / "earlier.zip", tmp_path / "down.zip"
    earlier.write_bytes(_signed_anew(thirds, key, _costing(lambda cost: cost.in_whole_units())))
    assert read_bundle(earlier).chain.lines[-1].spent.startswith("476190476190476190476190476192 ")
    floor = _costing(lambda cost: replace(cost, pure=math.floor(cost.pure or 0)))
    down.write_bytes(_signed_anew(thirds, key, floor))
    with pytest.raises(sf.BundleDamaged, match="does not follow from its mechanisms"):
        read_bundle(down)


def test_roundings_alone_are_not_more_than_the_budget(tmp_path: Path) -> None:
    """Two series fill the account to the last, and their steps round the total up, beyond the budget."""
    primes = (999999937, 999999929, 999999893, 999999883, 999999797, 999999761, 999999757, 999999751)
    with sf.Ledger.open(tmp_path / "full.ledger") as ledger:
        full = ledger.account("full", unit=sf.PrivacyUnit("patient"), budget=sf.Budget(1))
        series = [full.open_tab(sf.Cost(10**30 // 2, None, 0)) for _ in range(2)]
        for place, prime in enumerate(primes):
            series[place % 2].step(sf.Entry(sf.Curve.pure(Fraction(1, prime))))
        assert "pure" not in full.remaining
        assert _faults_of(ledger) == []
        full.correct(sf.Curve.pure("1e-27"), reason="forgotten")
        assert _faults_of(ledger) == ["its costs add up to more than the budget"]


def _faults_of(ledger: sf.Ledger) -> list[str]:
    lines = [bundles._publish_line(line, {}, None) for line in ledger]
    held = write_cost(list(ledger)[-1].held)
    manifest = bundles.BundleManifest(1, "", "", "patient", "add-remove", (sf.Budget(1),), held, "", {})
    return list(bundles._amount_faults(lines, manifest))


def test_an_answer_to_another_question_is_found(shown: Path, key: SigningKey, tmp_path: Path) -> None:
    members = _members(shown)
    name = next(each for each in members if each.startswith("answers/"))
    answer = sf.Answer.from_json(members[name].decode())
    for receipt in (
        replace(answer.receipt, question="SELECT 1"),
        replace(answer.receipt, line=1),
        replace(answer.receipt, hash="0" * 64),
        replace(answer.receipt, unit="one row (one flight)"),
    ):
        changed = replace(answer, receipt=receipt).to_json().encode()
        assert _is_refused(_resigned({**members, name: changed}, key), tmp_path / "answer.zip")
    again = {**members, "answers/1.json": members[name]}
    assert _is_refused(_resigned(again, key), tmp_path / "twice.zip")


def test_numbers_that_the_ledger_does_not_have_are_found(
    shown: Path, key: SigningKey, policy: Path, tmp_path: Path
) -> None:
    """Only whoever has the ledger can tell: the owner drew these numbers, and can sign others."""
    members = _members(shown)
    name = next(each for each in members if each.startswith("answers/"))
    answer = sf.Answer.from_json(members[name].decode())
    nicer = replace(answer, rows=tuple((*row[:-1], row[-1] + 1) for row in answer.rows))
    path = tmp_path / "nicer.zip"
    path.write_bytes(_resigned({**members, name: nicer.to_json().encode()}, key))
    assert verify_bundle(path, key.public).proved
    with pytest.raises(sf.BundleDamaged, match="answers differ from those of the ledger"):
        verify_bundle(path, key.public, policy=policy)


def test_an_account_only_grows(key: SigningKey, shown: Path, tmp_path: Path) -> None:
    policy = asked(tmp_path / "flights")
    bundle(policy, key, tmp_path / "first.zip", questions=True)
    with sf.open(policy) as flights:
        flights.sql("SELECT COUNT(*) AS n FROM flights").release(epsilon=0.25)
    bundle(policy, key, tmp_path / "second.zip")
    assert verify_bundle(tmp_path / "second.zip", earlier=tmp_path / "first.zip").proved
    assert verify_bundle(tmp_path / "first.zip", policy=policy).proved  # the ledger has more by now
    for later, earlier in (("first.zip", "second.zip"), ("second.zip", shown)):
        with pytest.raises(sf.BundleDamaged, match="does not continue"):
            verify_bundle(tmp_path / later, earlier=tmp_path / earlier)
    with pytest.raises(sf.BundleDamaged, match=r"chain\.json differs from the ledger"):
        verify_bundle(shown, policy=policy)
    number = read_bundle(tmp_path / "first.zip").shown_lines[0].number
    path = tmp_path / "third.zip"
    path.write_bytes(_signed_anew(tmp_path / "second.zip", key, _changed(number, asked="0" * 64)))
    with pytest.raises(sf.BundleDamaged, match=r"its line \d+ differs from the earlier"):
        verify_bundle(path, earlier=tmp_path / "first.zip")


def _stated_anew(path: Path, key: SigningKey, **stated: object) -> bytes:
    """The bundle with another manifest, signed by its owner as if it were true."""
    members = _members(path)
    manifest = codec.loads_as(bundles.BundleManifest, members["manifest.json"].decode())
    changed = codec.dumps(replace(manifest, **stated)).encode()  # type: ignore[arg-type]
    return _resigned({**members, "manifest.json": changed}, key)


def test_whom_it_protects_and_its_budgets_are_those_of_the_ledger_and_of_earlier_bundles(
    hidden: Path, key: SigningKey, policy: Path, tmp_path: Path
) -> None:
    """Lines alone do not say what was promised: an owner who signs another promise later is found, too."""
    first, last = read_bundle(hidden).manifest.budgets
    path = tmp_path / "stated.zip"
    untruths: list[dict[str, object]] = [
        {"unit": "one day of one flight"},
        {"neighbours": "replace"},
        {"budgets": (sf.Budget(1), last)},
        {"budgets": (first, last, sf.Budget(9))},
        {"budgets": (last,)},
        {"held": write_cost(Cost(10**29, None, 0))},
    ]
    for stated in untruths:
        path.write_bytes(_stated_anew(hidden, key, **stated))
        assert verify_bundle(path, key.public).proved
        with pytest.raises(sf.BundleDamaged, match="ledger"):
            verify_bundle(path, key.public, policy=policy)
    for stated in (*untruths[:3], untruths[4]):
        path.write_bytes(_stated_anew(hidden, key, **stated))
        with pytest.raises(sf.BundleDamaged, match="earlier bundle"):
            verify_bundle(path, key.public, earlier=hidden)
    path.write_bytes(_stated_anew(hidden, key))
    assert verify_bundle(path, key.public, earlier=hidden, policy=policy).proved


def test_a_line_stays_in_its_account(hidden: Path, key: SigningKey, tmp_path: Path) -> None:
    """What is spent is added up by accounts: a line that moves to another one would no longer count."""
    charge = next(each for each in read_bundle(hidden).chain.lines if each.line_kind == "charge")
    path = tmp_path / "moved.zip"

    def moved(chain: bundles.BundleChain) -> bundles.BundleChain:
        spent, lines = Cost(0, None, 0), []
        for line in chain.lines:
            own = line.number == charge.number
            spent = spent if own else spent + read_cost(line.cost)
            account, total = (1, read_cost(line.cost)) if own else (0, spent)
            lines.append(replace(line, account=account, spent=write_cost(total)))
        return replace(chain, lines=tuple(lines))

    path.write_bytes(_signed_anew(hidden, key, moved))
    with pytest.raises(sf.BundleDamaged, match="period"):
        read_bundle(path)


def test_an_earlier_bundle_of_another_key_is_said_to_be_one(
    hidden: Path, policy: Path, key: SigningKey, tmp_path: Path
) -> None:
    """Keys may be renewed; but whoever signed the earlier one is then known by nothing in this one."""
    bundle(policy, SigningKey.new(), tmp_path / "other.zip")
    found = verify_bundle(hidden, key.public, earlier=tmp_path / "other.zip")
    assert "the owner signed the earlier bundle: it was signed with another key" in " ".join(found.unproved)
    assert "signed the earlier bundle" not in str(verify_bundle(hidden, key.public, earlier=hidden))


def test_a_page_that_loads_or_runs_something_is_found(hidden: Path, key: SigningKey, tmp_path: Path) -> None:
    """Whoever unpacks a bundle reads its page in a browser."""
    members, path = _members(hidden), tmp_path / "page.zip"
    page = members["report.html"]
    others = [
        page.replace(b"default-src 'none'; ", b""),
        page.replace(b"<head>", b"<head><script>alert(1)</script>"),
        *(
            page.replace(b"</body>", evil + b"</body>")
            for evil in (b"<SCRIPT>alert(1)</SCRIPT>", b"<meta http-equiv=refresh content=0>", b"<link rel=x>")
        ),
    ]
    for other in others:
        assert other != page
        path.write_bytes(_resigned({**members, "report.html": other}, key))
        with pytest.raises(sf.BundleDamaged, match=r"report\.html loads something"):
            read_bundle(path)
    assert "That report.html agrees with" in " ".join(verify_bundle(hidden).unproved)


def test_a_bundle_is_a_zip_beside_others(policy: Path, key: SigningKey, tmp_path: Path) -> None:
    with pytest.raises(sf.InvalidParameter):
        bundle(policy, key, tmp_path / "bundle.tar")
    with pytest.raises(sf.SfumatoError, match="cannot be written"):
        bundle(policy, key, tmp_path / "missing" / "bundle.zip")
    bundle(policy, key, tmp_path / "bundle.zip")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as file:
        assert file.testzip() is None
        assert file.read("report.html").startswith(b"<!doctype html>")
    assert PublicKey.read(key.public.line) == verify_bundle(tmp_path / "bundle.zip").bundle.key
