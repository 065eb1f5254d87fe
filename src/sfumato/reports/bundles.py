"""Signed bundles: one zip file with answers, their receipts, the report page, and the hash chain of the account.

The manifest has the SHA-256 of every other member but the signature, and the signature is of the manifest. Members are
stored uncompressed, in a fixed order, with a fixed date: verification writes the zip again and compares, so no byte can
be changed, added or moved, and no member unpacks to more than the file itself holds.

For a line whose question is hidden, a bundle has its time, kind, cost and hashes. The mechanisms are included for shown
lines only, since their parameters may contain numbers from the question.

Offline verification of a bundle: its signature, its consistency, and a list of what that proves and does not prove.

Checked for every bundle: the zip has exactly the bytes that writing it would give; the manifest is signed; every member
has the hash in the manifest; the page loads nothing; salted hashes match the shown questions; costs add up to the
spent totals, which stay within the budget; the cost of each shown question follows from its mechanisms; every answer
has a receipt for a line of the chain, and was paid for.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

from sfumato.errors import BundleDamaged, InvalidParameter, SfumatoError
from sfumato.ledger import Line, spending
from sfumato.ledger.spending import NO_COST, read_cost, write_cost
from sfumato.policy import Policy
from sfumato.privacy import Budget, Cost, codec
from sfumato.privacy.amounts import format_guarantee
from sfumato.publish.files.sealed_files import build_zip, iterate_members, require_writable, write_atomically
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.answers.web_pages import is_self_contained
from sfumato.release.running_totals import RunningAnswer
from sfumato.reports.account_reports import (
    AccountReport,
    Questions,
    ReportedQuestion,
    collect_report,
    report_page,
    salted_hash,
)
from sfumato.reports.signing_keys import PublicKey, SigningKey
from sfumato.untrusted import refuse_malformed
from sfumato.version import __version__

MANIFEST, CHAIN, PAGE, README, SIGNATURE = "manifest.json", "chain.json", "report.html", "README.txt", "signature.json"
FORMAT = 1
MAX_ANSWERS = 60_000
"""The most answers of one bundle: a zip counts its members in 16 bits."""
_SIGNATURE_CONTEXT = b"sfumato bundle 1\n"
"""Domain separation: the signed text begins with it, so that no other signature of the key passes for a bundle's."""
_README = """A signed bundle of answers under differential privacy.

manifest.json   who is protected, the budget, and the SHA-256 of each of the other files
chain.json      every line of the account: time, cost and hash; and the hashes of all lines of the ledger
answers/        answers whose questions are shown, with ranges and receipts, named by their line numbers
report.html     the same as a web page
signature.json  the owner's Ed25519 signature of manifest.json

Verify it offline, with the owner's public key from another source than this file:

    sfumato verify bundle.zip --key owner.key.pub
"""


@codec.serialisable("bundle-line")
@dataclass(frozen=True)
class BundleLine:
    """One ledger line of the account, as a bundle publishes it."""

    number: int
    time: str
    line_kind: str
    account: int
    """0 for the account itself; others number its period accounts, in the order in which they were opened."""
    cost: str
    """The line's cost per currency: units of 1e-30, or a fraction of ε or δ (``privacy.amounts``)."""
    spent: str
    """The total spent in its account, this line included."""
    hash: str
    about: int = 0
    """For an answer, the number of the line that was charged for it."""
    asked: str = ""
    """The salted hash of the question's text, where the line has a question."""
    question: str = ""
    salt: str = ""
    parts: str = ""
    """The mechanisms, where the question is shown: the cost can be computed from them."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)


@codec.serialisable("bundle-chain")
@dataclass(frozen=True)
class BundleChain:
    """The hash chain: the account's lines, and the hash of every line of the ledger up to the last of them."""

    lines: tuple[BundleLine, ...]
    hashes: tuple[str, ...]

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if type(self.lines) is not tuple or not all(isinstance(line, BundleLine) for line in self.lines):
            raise InvalidParameter("lines", self.lines, "a tuple of BundleLine values")


@codec.serialisable("bundle")
@dataclass(frozen=True)
class BundleManifest:
    """The manifest of a bundle: the account's guarantee and budgets, the signing key, and the members' hashes."""

    format: int
    made: str
    software: str
    unit: str
    neighbours: str
    budgets: tuple[Budget, ...]
    """Every budget that the account has had, oldest first, each as if nothing were spent."""
    held: str
    """The amounts that open series have reserved, in addition to what is spent."""
    key: str
    members: Mapping[str, str] = field(metadata=codec.MAPPING)

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if type(self.budgets) is not tuple or not self.budgets or not all(isinstance(b, Budget) for b in self.budgets):
            raise InvalidParameter("budgets", self.budgets, "a non-empty tuple of Budget values")
        if not isinstance(self.members, Mapping) or not all(
            type(member_hash) is str for member_hash in self.members.values()
        ):
            raise InvalidParameter("members", self.members, "a mapping from file names to hashes")
        object.__setattr__(self, "members", dict(self.members))


@codec.serialisable("bundle-signature")
@dataclass(frozen=True)
class BundleSignature:
    """The signature of the manifest, and the public key that verifies it."""

    key: str
    signature: str
    algorithm: str = ""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)


def bundle(
    policy: Policy | str | os.PathLike[str],
    key: SigningKey,
    path: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    *,
    questions: Questions = False,
    title: str | None = None,
) -> AccountReport:
    """Save the signed bundle of a policy's account; return its content as a report.

    ``questions`` chooses the questions to show with their answers: all, none, or those of these lines.
    """
    if Path(path).suffix.lower() != ".zip":
        raise InvalidParameter(
            "path", str(path), "a file that ends in .zip", fix="end the path in .zip, for example bundle.zip"
        )
    require_writable(path)
    account_report = collect_report(policy, ledger, questions=questions)
    write_atomically(bundle_bytes(account_report, key, title), path)
    return account_report


def bundle_bytes(account_report: AccountReport, key: SigningKey, title: str | None = None) -> bytes:
    """Return the bytes of a signed bundle."""
    members = {
        CHAIN: codec.dumps(bundle_chain(account_report)).encode(),
        **{name: answer.to_json().encode() for name, answer in answer_members(account_report.questions)},
        PAGE: report_page(account_report, title).html.encode(),
        README: _README.encode(),
    }
    if len(members) > MAX_ANSWERS:
        raise InvalidParameter(
            "questions", len(members), f"the lines of at most {MAX_ANSWERS:,} answers", fix="choose fewer lines"
        )
    manifest = codec.dumps(
        BundleManifest(
            FORMAT,
            account_report.created.isoformat(),
            f"sfumato {__version__}",
            *manifest_terms(account_report),
            key.public.raw.hex(),
            {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
        )
    ).encode()
    signature = BundleSignature(key.public.raw.hex(), key.sign(signed_text(manifest)).hex(), "Ed25519")
    return build_zip({MANIFEST: manifest, **members, SIGNATURE: codec.dumps(signature).encode()})


def manifest_terms(account_report: AccountReport) -> tuple[str, str, tuple[Budget, ...], str]:
    """Return the manifest's fields about the account: unit, neighbours, every budget, and the reserved amounts."""
    return (
        str(account_report.unit),
        account_report.neighbours.value,
        account_report.budgets,
        write_cost(_newest_account_line(account_report.lines).held),
    )


def signed_text(manifest: bytes) -> bytes:
    """Return the text that is signed for a manifest."""
    return _SIGNATURE_CONTEXT + manifest


def answer_members(questions: Sequence[ReportedQuestion]) -> Iterator[tuple[str, Answer]]:
    """Yield the shown answers, each with the name of its zip member."""
    for question in questions:
        if question.answer is not None:
            yield f"answers/{question.answer_line:08d}.json", question.answer


def bundle_chain(account_report: AccountReport) -> BundleChain:
    """Return the hash chain of the account."""
    account_numbers: dict[str, int] = {}
    questions = {question.number: question for question in account_report.questions}
    lines = [_publish_line(line, account_numbers, questions.get(line.number)) for line in account_report.lines]
    return BundleChain(tuple(lines), account_report.hashes)


def _publish_line(line: Line, account_numbers: dict[str, int], question: ReportedQuestion | None) -> BundleLine:
    published = BundleLine(
        line.number,
        line.time.isoformat(),
        line.kind,
        account_numbers.setdefault(line.account, len(account_numbers)),
        write_cost(line.cost),
        write_cost(line.spent),
        line.hash,
        line.about or 0,
        question.hash if question is not None else "",
    )
    if question is None or question.question is None:
        return published
    return replace(published, question=question.question, salt=question.salt or "", parts=line.parts)


def _newest_account_line(lines: Sequence[Line]) -> Line:
    """Return the newest line of the account itself, not of a period account."""
    return next(line for line in reversed(lines) if line.account == lines[0].account)


T = TypeVar("T")

_MAX_BYTES = 1 << 28
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read: its signature is valid, and its content is consistent."""

    manifest: BundleManifest
    chain: BundleChain
    answers: tuple[Answer, ...]
    page: str
    key: PublicKey

    @property
    def shown_lines(self) -> tuple[BundleLine, ...]:
        return tuple(line for line in self.chain.lines if line.salt)


@dataclass(frozen=True)
class BundleVerification:
    """The result of a verification: statements that are proved, and statements that are not."""

    bundle: Bundle
    proved: tuple[str, ...]
    unproved: tuple[str, ...]

    def __str__(self) -> str:
        proved = (f"  ✓ {proof}" for proof in self.proved)
        return "\n".join(["Proved:", *proved, "Not proved:", *(f"  – {statement}" for statement in self.unproved)])


def verify_bundle(
    path: str | os.PathLike[str],
    key: PublicKey | str | os.PathLike[str] | None = None,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    earlier: str | os.PathLike[str] | None = None,
) -> BundleVerification:
    """Verify a bundle, or refuse it.

    With a ``key``, also that its owner signed it; with a ``policy``, that it agrees with the ledger; with an
    ``earlier`` bundle, that no line of that one was changed or removed.
    """
    bundle = read_bundle(path)
    expected_key = key if key is None or isinstance(key, PublicKey) else PublicKey.read(key)
    if expected_key is not None and expected_key != bundle.key:
        raise _damaged_bundle_error(
            path, f"it was signed with another key: {bundle.key.fingerprint}, not {expected_key.fingerprint}"
        )
    earlier_bundle = None if earlier is None else read_bundle(earlier)
    if earlier_bundle is not None:
        _require_extends_earlier(path, bundle, earlier_bundle)
    if policy is not None:
        _require_matches_ledger(path, bundle, policy, ledger)
    return BundleVerification(
        bundle,
        tuple(_proved_statements(bundle, expected_key is not None, earlier_bundle is not None, policy is not None)),
        tuple(_unproved_statements(bundle, expected_key is not None, policy is not None, earlier_bundle)),
    )


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle; refuse one whose signature is not valid, or whose content is not consistent."""
    return parse_bundle(_read_file(path), path)


def parse_bundle(content: bytes, path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle from its bytes; ``path`` is for messages."""
    with refuse_malformed(lambda: _damaged_bundle_error(path, "its files contradict each other")):
        return _parse_bundle(content, path)


def _parse_bundle(content: bytes, path: str | os.PathLike[str]) -> Bundle:
    try:
        members = dict(iterate_members(content, str(path)))
    except SfumatoError:
        raise _damaged_bundle_error(path, "it is not a zip file that sfumato bundle wrote") from None
    if build_zip(members) != content:
        raise _damaged_bundle_error(
            path, "its zip archive has extra bytes, unknown names or attributes, or the same file twice"
        )
    manifest, key = _parse_signed_manifest(path, members)
    _require_members(path, manifest, members)
    answers = tuple(_read_answers(path, members))
    chain = _parse_member(BundleChain, members[CHAIN], path, CHAIN)
    bundle = Bundle(manifest, chain, answers, members[PAGE].decode(), key)
    fault = next(_find_inconsistencies(bundle), None)
    if fault is not None:
        raise _damaged_bundle_error(path, fault)
    return bundle


def _read_file(path: str | os.PathLike[str]) -> bytes:
    try:
        if not os.path.isfile(path):
            raise SfumatoError(
                "this file does not exist", place=str(path), fix="check the path: a bundle is a .zip file"
            )
        if os.path.getsize(path) > _MAX_BYTES:
            raise _damaged_bundle_error(path, f"it has more than {_MAX_BYTES:,} bytes")
        return Path(path).read_bytes()
    except OSError as error:
        raise SfumatoError(
            "the bundle cannot be read", place=str(path), fix="check its permissions, for example with ls -l"
        ) from error


def _parse_signed_manifest(path: str | os.PathLike[str], members: dict[str, bytes]) -> tuple[BundleManifest, PublicKey]:
    """Verify the signature before anything else is parsed, so that unsigned content reaches no other parser."""
    if MANIFEST not in members or SIGNATURE not in members:
        raise _damaged_bundle_error(path, "manifest.json or signature.json is missing")
    text = members[MANIFEST]
    signature = _parse_member(BundleSignature, members[SIGNATURE], path, SIGNATURE)
    if signature.algorithm != "Ed25519" or not _is_hex(signature.key, 64) or not _is_hex(signature.signature, 128):
        raise _damaged_bundle_error(path, "its signature is not an Ed25519 signature")
    key = PublicKey(bytes.fromhex(signature.key))
    if not key.verifies(bytes.fromhex(signature.signature), signed_text(text)):
        raise _damaged_bundle_error(path, "its signature does not match manifest.json")
    manifest = _parse_member(BundleManifest, text, path, MANIFEST)
    if manifest.format != FORMAT:
        rule = f"this version reads bundles of format {FORMAT}, but the file has format {manifest.format}"
        raise BundleDamaged(rule, place=str(path), fix="install a newer version of sfumato")
    if manifest.key != signature.key:
        raise _damaged_bundle_error(path, "manifest.json names another key than the one that signed it")
    return manifest, key


def _require_members(path: str | os.PathLike[str], manifest: BundleManifest, members: dict[str, bytes]) -> None:
    """Refuse members whose hash or order differs from the manifest's."""
    if list(members) != [MANIFEST, *manifest.members, SIGNATURE]:
        raise _damaged_bundle_error(path, "its files are not those that manifest.json lists")
    for name, digest in manifest.members.items():
        if hashlib.sha256(members[name]).hexdigest() != digest:
            raise _damaged_bundle_error(path, f"the hash of {name} is not the one in manifest.json")
    if CHAIN not in members or PAGE not in members:
        raise _damaged_bundle_error(path, "chain.json or report.html is missing")


def _read_answers(path: str | os.PathLike[str], members: dict[str, bytes]) -> Iterator[Answer]:
    for name, content in members.items():
        if name.startswith("answers/"):
            try:
                yield _parse_member(Answer, content, path, name)
            except BundleDamaged:
                yield _parse_member(RunningAnswer, content, path, name)


def _parse_member(kind: type[T], content: bytes, path: str | os.PathLike[str], name: str) -> T:
    """Parse a member from its canonical JSON text."""
    try:
        text = content.decode()
        value = codec.loads_as(kind, text, longest=len(text))
    except (UnicodeDecodeError, InvalidParameter) as error:
        raise _damaged_bundle_error(path, f"{name} cannot be parsed") from error
    if codec.dumps(value) != text:
        raise _damaged_bundle_error(path, f"{name} is not as Sfumato writes it")
    return value


# ── consistency ────────────────────────────────────────────────────────────────────────────────


def _find_inconsistencies(bundle: Bundle) -> Iterator[str]:
    """Yield every inconsistency: a false statement that the owner signed is caught here as far as possible."""
    try:
        if not is_self_contained(bundle.page):
            yield "report.html loads something from another server"
        yield from _chain_faults(bundle.chain)
        yield from _period_faults(bundle.chain.lines)
        yield from _amount_faults(bundle.chain.lines, bundle.manifest)
        yield from _question_faults(bundle)
        yield from _answer_faults(bundle)
    except (ValueError, InvalidParameter):
        yield "an amount or a mechanism in chain.json cannot be read"


def _chain_faults(chain: BundleChain) -> Iterator[str]:
    if not chain.lines or len(chain.hashes) != chain.lines[-1].number:
        yield "chain.json does not end with the account's last line"
    if len(set(chain.hashes)) != len(chain.hashes) or not all(_is_hex(chain_hash, 64) for chain_hash in chain.hashes):
        yield "a hash in chain.json occurs twice, or is not a SHA-256"
    previous_number = 0
    for line in chain.lines:
        if not previous_number < line.number <= len(chain.hashes) or chain.hashes[line.number - 1] != line.hash:
            yield f"line {line.number} has two different hashes in chain.json"
        previous_number = line.number
    times = [line.time for line in chain.lines]
    if times != sorted(times):
        yield "a line is older than the line before it"


def _period_faults(lines: Sequence[BundleLine]) -> Iterator[str]:
    """Yield faults of period accounts: they hold only copies of the account's charges, and at least one of each."""
    unpaid: BundleLine | None = None
    has_periods = any(line.account for line in lines)
    for line in lines:
        if line.account and line.line_kind not in ("account-open", "period"):
            yield f"line {line.number} is in a period account, where no question is asked"
        if has_periods and line.line_kind == "charge":
            if unpaid is not None:
                yield f"line {unpaid.number} was not paid for in any period account"
            unpaid = line
        elif unpaid is not None and line.line_kind == "period" and line.cost == unpaid.cost:
            unpaid = None
    if unpaid is not None:
        yield f"line {unpaid.number} was not paid for in any period account"


def _amount_faults(lines: Sequence[BundleLine], manifest: BundleManifest) -> Iterator[str]:
    """Yield faults of amounts: in every account, the spent total grows by each line's cost and stays within the budget
    (of the account itself or, where there are period accounts, of each of those).

    A total may exceed the budget by its roundings alone (``privacy.amounts``): those of the spent total are counted
    here, and each line of a series may have rounded the reserved amount.
    """
    spent: dict[int, Cost] = {}
    roundings = Counter(line.account for line in lines if line.line_kind in _SERIES_KINDS)
    for line in lines:
        previous, cost = spent.get(line.account, NO_COST), read_cost(line.cost)
        total = previous + cost
        if write_cost(total) != line.spent:
            yield f"the total spent after line {line.number} is not the total before it plus its cost"
        spent[line.account] = total
        roundings[line.account] += total.is_rounded_sum(previous, cost)
    reserved = read_cost(manifest.held)
    account_total = spent.get(0, NO_COST) + reserved
    roundings[0] += account_total.is_rounded_sum(spent.pop(0, NO_COST), reserved)
    budget = _with_nothing_spent(manifest.budgets[-1])
    totals = spent or {0: account_total}
    if not all(budget.admits(total.minus_roundings(roundings[account])) for account, total in totals.items()):
        yield "its costs add up to more than the budget"


_SERIES_KINDS = ("tab-open", "step", "tab-close")


def _with_nothing_spent(budget: Budget) -> Budget:
    return budget.with_spent(Cost(0, 0 if budget.order is not None else None, 0))


def _question_faults(bundle: Bundle) -> Iterator[str]:
    opening = bundle.manifest.budgets[0]
    for line in bundle.chain.lines:
        if bool(line.question or line.parts) and not line.salt:
            yield f"line {line.number} shows a question without its salt"
        if line.salt and salted_hash(line.salt, line.question) != line.asked:
            yield f"the salted hash of line {line.number} does not match the question that it shows"
        if line.salt and line.line_kind in ("charge", "step"):
            parts = spending.read_parts(line.parts)
            price = opening.cost(spending.compose_parts(parts)) if parts else None
            if price is None or line.cost not in (write_cost(price), write_cost(price.in_whole_units())):
                yield f"the cost of line {line.number} does not follow from its mechanisms"


def _answer_faults(bundle: Bundle) -> Iterator[str]:
    lines = {line.number: line for line in bundle.chain.lines}
    for answer in bundle.answers:
        receipt = answer.receipt
        line = lines.get(receipt.line)
        if line is None or (line.line_kind, line.hash, line.time) != ("answer", receipt.hash, receipt.time):
            yield f"the receipt of line {receipt.line} does not match an answer in chain.json"
            continue
        charge = lines.get(line.about)
        if charge is None or not charge.salt or charge.question != receipt.question:
            yield f"the answer in line {line.number} belongs to another question than the one that was paid for"
        elif (receipt.unit, receipt.neighbours) != (bundle.manifest.unit, bundle.manifest.neighbours):
            yield f"the receipt of line {line.number} protects another unit"
    answer_lines = [answer.receipt.line for answer in bundle.answers]
    if len(set(answer_lines)) != len(answer_lines):
        yield "an answer occurs twice"


# ── comparison with an earlier bundle and with the ledger ──────────────────────────────────────


def _require_extends_earlier(path: str | os.PathLike[str], bundle: Bundle, earlier: Bundle) -> None:
    """Refuse a bundle that does not extend an earlier one: an account only grows."""
    now, then = bundle.manifest, earlier.manifest
    if (now.unit, now.neighbours) != (then.unit, then.neighbours) or now.budgets[: len(then.budgets)] != then.budgets:
        raise _damaged_bundle_error(
            path, "its privacy unit or its past budgets differ from those of the earlier bundle"
        )
    earlier_hashes = earlier.chain.hashes
    if bundle.chain.hashes[: len(earlier_hashes)] != earlier_hashes:
        raise _damaged_bundle_error(
            path, "it does not continue the earlier bundle: a line was changed or removed since"
        )
    lines = {line.number: line for line in bundle.chain.lines}
    for line in earlier.chain.lines:
        same_line = lines.get(line.number)
        if same_line is None or _public_fields(same_line) != _public_fields(line):
            raise _damaged_bundle_error(path, f"its line {line.number} differs from the earlier bundle's")


def _public_fields(line: BundleLine) -> tuple[object, ...]:
    """Return the fields of a line that do not depend on whether its question is shown."""
    amounts = line.account, line.cost, line.spent
    return line.number, line.time, line.line_kind, *amounts, line.hash, line.about, line.asked


def _require_matches_ledger(
    path: str | os.PathLike[str],
    bundle: Bundle,
    policy: Policy | str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None,
) -> None:
    """Rebuild the bundle's content from the ledger, and refuse any difference."""
    line_numbers = tuple(line.number for line in bundle.shown_lines)
    rebuilt = collect_report(policy, ledger, questions=line_numbers, last_line=len(bundle.chain.hashes))
    if bundle_chain(rebuilt) != bundle.chain:
        raise _damaged_bundle_error(path, "chain.json differs from the ledger")
    manifest = bundle.manifest
    if (manifest.unit, manifest.neighbours, manifest.budgets, manifest.held) != manifest_terms(rebuilt):
        raise _damaged_bundle_error(
            path, "its privacy unit, budgets or reserved amounts differ from those of the ledger"
        )
    rebuilt_answers = [answer for _, answer in answer_members(rebuilt.questions)]
    if [_lasting_fields(answer) for answer in rebuilt_answers] != [
        _lasting_fields(answer) for answer in bundle.answers
    ]:
        raise _damaged_bundle_error(path, "its answers differ from those of the ledger")


def _lasting_fields(answer: Answer) -> tuple[object, ...]:
    """Return the parts of an answer that later spending does not change: not the remaining budget or its amendments."""
    return answer.columns, answer.rows, answer.intervals, answer.warnings, _receipt_terms(answer.receipt)


def _receipt_terms(receipt: Receipt) -> tuple[object, ...]:
    return receipt.question, receipt.guarantee, receipt.mechanisms, receipt.limits, receipt.bounds, receipt.hash


# ── what it proves ─────────────────────────────────────────────────────────────────────────────


def _proved_statements(bundle: Bundle, key_given: bool, continues_earlier: bool, audited: bool) -> Iterator[str]:
    signer = f"{bundle.key.fingerprint}, the key you gave" if key_given else bundle.key.fingerprint
    lines, hidden = bundle.chain.lines, sum(bool(line.asked) and not line.salt for line in bundle.chain.lines)
    yield f"The bundle is unchanged since it was signed with the key {signer}."
    yield (
        f"The account has {len(lines):,} lines until {lines[-1].time[:10]}; their costs add up to the total spent"
        f"{_within_budget_words(bundle)}."
    )
    if bundle.shown_lines:
        yield (
            f"Each shown question ({len(bundle.shown_lines):,}) matches its salted hash, and its cost follows from its "
            "mechanisms."
        )
        yield f"Each answer ({len(bundle.answers):,}) has a receipt for a line of this chain, and was paid for."
    if hidden:
        yield f"Each hidden question ({hidden:,}) is fixed by its salted hash: it cannot be replaced later."
    if continues_earlier:
        yield "It continues the earlier bundle: no line of that one was changed or removed."
    if audited:
        yield "The ledger is intact and agrees: budgets, lines, costs, hashes of questions, numbers of answers."


def _within_budget_words(bundle: Bundle) -> str:
    periods = " in each period" if any(line.account for line in bundle.chain.lines) else ""
    budget = bundle.manifest.budgets[-1]
    return f", within {format_guarantee(budget.epsilon, budget.delta)}{periods}"


def _unproved_statements(bundle: Bundle, key_given: bool, audited: bool, earlier: Bundle | None) -> Iterator[str]:
    if not key_given:
        yield "Whose key it is: get the owner's public key from another source, and pass it with --key."
    if earlier is not None and earlier.key != bundle.key:
        yield f"That the owner signed the earlier bundle: it was signed with another key, {earlier.key.fingerprint}."
    if not audited:
        yield "That the ledger agrees: its hashes also cover fields that are not in the bundle. --policy checks it."
    yield "That report.html agrees with the other files: only that it is as signed, and loads nothing, was checked."
    yield "That it has the newest lines: an owner can sign an older state. Compare its date with a newer bundle."
    yield "That the data are true, that the policy assigns each row to the right unit, or that no other account exists."
    yield "That the noise was drawn at random, and that whoever ran the queries keeps the rows secret."
    if any(line.asked and not line.salt for line in bundle.chain.lines):
        yield "What the hidden questions asked, and which mechanisms were run for them."


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= _HEX


def _damaged_bundle_error(path: str | os.PathLike[str], why: str) -> BundleDamaged:
    return BundleDamaged(
        f"this bundle is not accepted: {why}",
        place=str(path),
        fix="get it again from its owner; do not rely on anything in this file",
    )
