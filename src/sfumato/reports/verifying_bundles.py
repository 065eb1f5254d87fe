"""A bundle is verified offline: that it is as it was signed, that it adds up, and what that proves and does not prove.

What is checked of every bundle: the zip has no byte but those that it must have; the manifest is signed; every member
has the hash that the manifest says; the page is one that loads nothing; salted hashes fit the questions that are shown;
costs add up to what was spent, and stay within the budget; the cost of each shown question follows from what was run
for it; every answer has a receipt for a line of the chain, and was paid for.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sfumato.errors import BundleDamaged, InvalidParameter, SfumatoError
from sfumato.ledger import spending
from sfumato.ledger.spending import NOTHING, read_cost, write_cost
from sfumato.policy import Policy
from sfumato.privacy import Budget, Cost, codec
from sfumato.privacy.budget_words import promised
from sfumato.publish.files.sealed_files import members_of, zipped
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.answers.web_pages import loads_nothing
from sfumato.release.running_totals import RunningAnswer
from sfumato.reports import bundles
from sfumato.reports.bundles import BundleChain, BundleLine, BundleManifest, BundleSignature
from sfumato.reports.signing_keys import PublicKey
from sfumato.reports.telling import salted, told
from sfumato.untrusted import refusing

T = TypeVar("T")

_MOST_BYTES = 1 << 28
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Bundle:
    """This is a bundle as it was read: every byte of it is as its key signed it, and it adds up."""

    manifest: BundleManifest
    chain: BundleChain
    answers: tuple[Answer, ...]
    page: str
    key: PublicKey

    @property
    def shown(self) -> tuple[BundleLine, ...]:
        return tuple(each for each in self.chain.lines if each.salt)


@dataclass(frozen=True)
class Verified:
    """This says what the verification of a bundle proves, and what it does not."""

    bundle: Bundle
    proved: tuple[str, ...]
    unproved: tuple[str, ...]

    def __str__(self) -> str:
        proved = (f"  ✓ {each}" for each in self.proved)
        return "\n".join(
            ["This is proved:", *proved, "This is not proved:", *(f"  – {each}" for each in self.unproved)]
        )


def verify_bundle(
    path: str | os.PathLike[str],
    key: PublicKey | str | os.PathLike[str] | None = None,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    earlier: str | os.PathLike[str] | None = None,
) -> Verified:
    """Verify a bundle, or refuse it; with a ``key`` that its owner signed it, with a ``policy`` that the ledger says
    the same, with an ``earlier`` bundle that nothing was changed or taken out since.
    """
    bundle = read(path)
    expected = key if key is None or isinstance(key, PublicKey) else PublicKey.read(key)
    if expected is not None and expected != bundle.key:
        raise _damaged(path, f"another key signed it: {bundle.key.fingerprint}, not {expected.fingerprint}")
    before = None if earlier is None else read(earlier)
    if before is not None:
        _require_later(path, bundle, before)
    if policy is not None:
        _require_in_ledger(path, bundle, policy, ledger)
    return Verified(
        bundle,
        tuple(_proved(bundle, expected is not None, before is not None, policy is not None)),
        tuple(_unproved(bundle, expected is not None, policy is not None, before)),
    )


def read(path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle, once every byte of it is known to be as it was signed; then that what it says adds up."""
    return opened(_content(path), path)


def opened(content: bytes, path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle from its bytes; the path says where they are from."""
    with refusing(lambda: _damaged(path, "what it holds does not fit together")):
        return _opened(content, path)


def _opened(content: bytes, path: str | os.PathLike[str]) -> Bundle:
    try:
        members = dict(members_of(content, str(path)))
    except SfumatoError:
        raise _damaged(path, "it is no zip file that was written as a bundle") from None
    if zipped(members) != content:
        raise _damaged(path, "it has bytes, names or attributes that a bundle does not have, or a member twice")
    manifest, key = _signed(path, members)
    _require_members(path, manifest, members)
    answers = tuple(_answers(path, members))
    chain = _read(BundleChain, members[bundles.CHAIN], path, bundles.CHAIN)
    found = Bundle(manifest, chain, answers, members[bundles.PAGE].decode(), key)
    why = next(_faults(found), None)
    if why is not None:
        raise _damaged(path, why)
    return found


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        if not os.path.isfile(path):
            raise SfumatoError("there is no such bundle", place=str(path), fix="name the .zip file of a bundle")
        if os.path.getsize(path) > _MOST_BYTES:
            raise _damaged(path, f"it has more than {_MOST_BYTES:,} bytes")
        return Path(path).read_bytes()
    except OSError as error:
        raise SfumatoError(
            "the bundle cannot be read", place=str(path), fix="make it readable for this user"
        ) from error


def _signed(path: str | os.PathLike[str], members: dict[str, bytes]) -> tuple[BundleManifest, PublicKey]:
    """Check the signature before anything else is read: whoever cannot sign decides nothing beyond this."""
    if bundles.MANIFEST not in members or bundles.SIGNATURE not in members:
        raise _damaged(path, "its manifest or its signature is missing")
    text = members[bundles.MANIFEST]
    signature = _read(BundleSignature, members[bundles.SIGNATURE], path, bundles.SIGNATURE)
    if signature.algorithm != "Ed25519" or not _is_hex(signature.key, 64) or not _is_hex(signature.signature, 128):
        raise _damaged(path, "its signature is not one of Ed25519")
    key = PublicKey(bytes.fromhex(signature.key))
    if not key.signed(bytes.fromhex(signature.signature), bundles.signed_text(text)):
        raise _damaged(path, "its manifest is not what was signed")
    manifest = _read(BundleManifest, text, path, bundles.MANIFEST)
    if manifest.format != bundles.FORMAT:
        rule = f"this version reads bundles of format {bundles.FORMAT}; the file has format {manifest.format}"
        raise BundleDamaged(rule, place=str(path), fix="install a newer sfumato")
    if manifest.key != signature.key:
        raise _damaged(path, "its manifest names another key than the one that signed it")
    return manifest, key


def _require_members(path: str | os.PathLike[str], manifest: BundleManifest, members: dict[str, bytes]) -> None:
    """Refuse members, beside the two that seal a bundle, that have another hash or order than the manifest says."""
    if list(members) != [bundles.MANIFEST, *manifest.members, bundles.SIGNATURE]:
        raise _damaged(path, "its members are not those that were signed")
    for name, digest in manifest.members.items():
        if hashlib.sha256(members[name]).hexdigest() != digest:
            raise _damaged(path, f"{name} does not have the hash that was signed")
    if bundles.CHAIN not in members or bundles.PAGE not in members:
        raise _damaged(path, "it has no chain, or no page")


def _answers(path: str | os.PathLike[str], members: dict[str, bytes]) -> Iterator[Answer]:
    for name, content in members.items():
        if name.startswith("answers/"):
            try:
                yield _read(Answer, content, path, name)
            except BundleDamaged:
                yield _read(RunningAnswer, content, path, name)


def _read(kind: type[T], content: bytes, path: str | os.PathLike[str], name: str) -> T:
    """Read a value from its one JSON text."""
    try:
        text = content.decode()
        found = codec.loads_as(kind, text, longest=len(text))
    except (UnicodeDecodeError, InvalidParameter) as error:
        raise _damaged(path, f"{name} is not what a bundle has there") from error
    if codec.dumps(found) != text:
        raise _damaged(path, f"{name} is not written as a bundle writes it")
    return found


# ── does it add up? ────────────────────────────────────────────────────────────────────────────


def _faults(bundle: Bundle) -> Iterator[str]:
    """Find whatever does not add up; an owner who signs an untruth is caught here as far as can be."""
    try:
        if not loads_nothing(bundle.page):
            yield "its page is not one that loads nothing"
        yield from _chain_faults(bundle.chain)
        yield from _period_faults(bundle.chain.lines)
        yield from _money_faults(bundle.chain.lines, bundle.manifest)
        yield from _question_faults(bundle)
        yield from _answer_faults(bundle)
    except (ValueError, InvalidParameter):
        yield "an amount or a mechanism in its chain cannot be read"


def _chain_faults(chain: BundleChain) -> Iterator[str]:
    if not chain.lines or len(chain.hashes) != chain.lines[-1].number:
        yield "its chain does not end with the account's last line"
    if len(set(chain.hashes)) != len(chain.hashes) or not all(_is_hex(each, 64) for each in chain.hashes):
        yield "a hash of its chain stands twice, or is none"
    before = 0
    for line in chain.lines:
        if not before < line.number <= len(chain.hashes) or chain.hashes[line.number - 1] != line.hash:
            yield f"line {line.number} is not the one that its chain has there"
        before = line.number
    times = [line.time for line in chain.lines]
    if times != sorted(times):
        yield "a line is older than the line before"


def _period_faults(lines: Sequence[BundleLine]) -> Iterator[str]:
    """The accounts of periods hold copies of the account's own charges alone, and of each charge at least one."""
    owing: BundleLine | None = None
    periods = any(line.account for line in lines)
    for line in lines:
        if line.account and line.line_kind not in ("account-open", "period"):
            yield f"line {line.number} is in the account of a period, where nothing is asked"
        if periods and line.line_kind == "charge":
            if owing is not None:
                yield f"line {owing.number} was paid for in no period"
            owing = line
        elif owing is not None and line.line_kind == "period" and line.cost == owing.cost:
            owing = None
    if owing is not None:
        yield f"line {owing.number} was paid for in no period"


def _money_faults(lines: Sequence[BundleLine], manifest: BundleManifest) -> Iterator[str]:
    """Spent grows by the cost of each line, in every account, and stays within the budget: in the account itself, or
    where every period has its own, in each of those.

    A total may be above the budget by its roundings alone (``privacy.amounts``): those of what is spent are seen here,
    and each line of a series may have rounded what is held.
    """
    spent: dict[int, Cost] = {}
    roundings = Counter(line.account for line in lines if line.line_kind in _OF_SERIES)
    for line in lines:
        before, cost = spent.get(line.account, NOTHING), read_cost(line.cost)
        total = before + cost
        if write_cost(total) != line.spent:
            yield f"what is spent after line {line.number} is not what was spent before and its cost"
        spent[line.account] = total
        roundings[line.account] += total.rounds(before, cost)
    held = read_cost(manifest.held)
    own = spent.get(0, NOTHING) + held
    roundings[0] += own.rounds(spent.pop(0, NOTHING), held)
    budget = _unspent(manifest.budgets[-1])
    totals = spent or {0: own}
    if not all(budget.admits(total.without(roundings[account])) for account, total in totals.items()):
        yield "more is spent than the budget allows"


_OF_SERIES = ("tab-open", "step", "tab-close")


def _unspent(budget: Budget) -> Budget:
    return budget.at(Cost(0, 0 if budget.order is not None else None, 0))


def _question_faults(bundle: Bundle) -> Iterator[str]:
    opening = bundle.manifest.budgets[0]
    for line in bundle.chain.lines:
        if bool(line.question or line.parts) and not line.salt:
            yield f"line {line.number} shows a question without its salt"
        if line.salt and salted(line.salt, line.question) != line.asked:
            yield f"the salted hash of line {line.number} is not of the question that it shows"
        if line.salt and line.line_kind in ("charge", "step"):
            parts = spending.read(line.parts)
            price = opening.cost(spending.curve(parts)) if parts else None
            if price is None or line.cost not in (write_cost(price), write_cost(price.in_whole_units())):
                yield f"line {line.number} did not cost what was run for it costs"


def _answer_faults(bundle: Bundle) -> Iterator[str]:
    lines = {each.number: each for each in bundle.chain.lines}
    for answer in bundle.answers:
        receipt = answer.receipt
        line = lines.get(receipt.line)
        if line is None or (line.line_kind, line.hash, line.time) != ("answer", receipt.hash, receipt.time):
            yield f"the receipt of line {receipt.line} is of no answer in its chain"
            continue
        paid = lines.get(line.about)
        if paid is None or not paid.salt or paid.question != receipt.question:
            yield f"the answer of line {line.number} is not to the question that was paid for"
        elif (receipt.unit, receipt.neighbours) != (bundle.manifest.unit, bundle.manifest.neighbours):
            yield f"the receipt of line {line.number} protects another unit"
    shown = [each.receipt.line for each in bundle.answers]
    if len(set(shown)) != len(shown):
        yield "an answer stands twice"


# ── what was kept elsewhere ────────────────────────────────────────────────────────────────────


def _require_later(path: str | os.PathLike[str], bundle: Bundle, earlier: Bundle) -> None:
    """An account only grows: all that an earlier bundle tells of it must stand there still."""
    now, then = bundle.manifest, earlier.manifest
    if (now.unit, now.neighbours) != (then.unit, then.neighbours) or now.budgets[: len(then.budgets)] != then.budgets:
        raise _damaged(path, "it promises otherwise than the earlier bundle: another unit, or another budget before")
    old = earlier.chain.hashes
    if bundle.chain.hashes[: len(old)] != old:
        raise _damaged(path, "it does not go on from the earlier bundle: a line was changed or taken out since")
    lines = {each.number: each for each in bundle.chain.lines}
    for line in earlier.chain.lines:
        again = lines.get(line.number)
        if again is None or _plain(again) != _plain(line):
            raise _damaged(path, f"it tells otherwise of line {line.number} than the earlier bundle")


def _plain(line: BundleLine) -> tuple[object, ...]:
    """Give what is told of a line whether or not its question is shown."""
    money = line.account, line.cost, line.spent
    return line.number, line.time, line.line_kind, *money, line.hash, line.about, line.asked


def _require_in_ledger(
    path: str | os.PathLike[str],
    bundle: Bundle,
    policy: Policy | str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None,
) -> None:
    """Everything is made again from the ledger, and must be the same."""
    shown = tuple(each.number for each in bundle.shown)
    found = told(policy, ledger, questions=shown, until=len(bundle.chain.hashes))
    if bundles.chain(found) != bundle.chain:
        raise _damaged(path, "its chain is not that of the ledger")
    stated = bundle.manifest
    if (stated.unit, stated.neighbours, stated.budgets, stated.held) != bundles.promised(found):
        raise _damaged(path, "whom it protects, its budgets, or what is held are not those of the ledger")
    again = [answer for _, answer in bundles.answers(found.asked)]
    if [_numbers(each) for each in again] != [_numbers(each) for each in bundle.answers]:
        raise _damaged(path, "its answers are not those of the ledger")


def _numbers(answer: Answer) -> tuple[object, ...]:
    """Give what does not change when more is spent later: all but what is left, and how the budget was amended."""
    return answer.columns, answer.rows, answer.intervals, answer.warnings, _terms(answer.receipt)


def _terms(receipt: Receipt) -> tuple[object, ...]:
    return receipt.question, receipt.guarantee, receipt.mechanisms, receipt.limits, receipt.bounds, receipt.hash


# ── what it proves ─────────────────────────────────────────────────────────────────────────────


def _proved(bundle: Bundle, known: bool, later: bool, audited: bool) -> Iterator[str]:
    signer = f"{bundle.key.fingerprint}, which is the one you gave" if known else bundle.key.fingerprint
    lines, hidden = bundle.chain.lines, sum(bool(each.asked) and not each.salt for each in bundle.chain.lines)
    yield f"Every byte is as the key signed it: {signer}."
    yield (
        f"The account has {len(lines):,} lines until {lines[-1].time[:10]}; their costs add up to what was spent"
        f"{_within(bundle)}."
    )
    if bundle.shown:
        yield (
            f"Of {len(bundle.shown):,} shown questions, each fits its salted hash, and cost what was run for it costs."
        )
        yield f"{len(bundle.answers):,} answers have receipts for lines of this chain, and were paid for."
    if hidden:
        yield f"{hidden:,} more questions are held to by their salted hashes: none can be exchanged for another later."
    if later:
        yield "It goes on from the earlier bundle: no line of that one was changed or taken out."
    if audited:
        yield "The ledger is whole, and says the same: budgets, lines, costs, hashes of questions, numbers of answers."


def _within(bundle: Bundle) -> str:
    periods = " in each period" if any(each.account for each in bundle.chain.lines) else ""
    budget = bundle.manifest.budgets[-1]
    return f", within {promised(budget.epsilon, budget.delta)}{periods}"


def _unproved(bundle: Bundle, known: bool, audited: bool, earlier: Bundle | None) -> Iterator[str]:
    if not known:
        yield "Whose key it is: compare it with one that the owner published elsewhere, and give that with --key."
    if earlier is not None and earlier.key != bundle.key:
        yield f"Whether the owner signed the earlier bundle: another key did, {earlier.key.fingerprint}."
    if not audited:
        yield "That the ledger says the same: the hashes of lines cover what is not in here. --policy checks it."
    yield "That report.html says the same as the other files: it loads nothing, and is as it was signed."
    yield "That the newest lines are in it: an owner can sign an older state. Compare the date with a newer one."
    yield "That the data are true, that the policy says truly whose each row is, or that there is no second account."
    yield "That noise was drawn at random, and that whoever ran it keeps the rows to themselves."
    if any(each.asked and not each.salt for each in bundle.chain.lines):
        yield "What the questions asked that are not shown, and what was run for them."


def _is_hex(text: str, letters: int) -> bool:
    return len(text) == letters and set(text) <= _HEX


def _damaged(path: str | os.PathLike[str], why: str) -> BundleDamaged:
    return BundleDamaged(
        f"a bundle is accepted only as it was signed; {why}",
        place=str(path),
        fix="fetch it again from its owner; do not rely on anything in this file",
    )
