"""Signed bundles: one zip file with answers, their receipts, the report page, and the hash chain of the account.

The manifest has the SHA-256 of every other member but the signature, and the signature is of the manifest. Members are
stored uncompressed, in a fixed order, with a fixed date: verification writes the zip again and compares, so no byte can
be changed, added or moved, and no member unpacks to more than the file itself holds.

For a line whose question is hidden, a bundle has its time, kind, cost and hashes. The mechanisms are included for shown
lines only, since their parameters may contain numbers from the question.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from sfumato.errors import InvalidParameter
from sfumato.ledger import Line
from sfumato.ledger.spending import write_cost
from sfumato.policy import Policy
from sfumato.privacy import Budget, codec
from sfumato.publish.files.sealed_files import build_zip, require_writable, write_atomically
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.reports.account_reports import AccountReport, Questions, ReportedQuestion, collect_report, report_page
from sfumato.reports.signing_keys import SigningKey
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
        if type(self.lines) is not tuple or not all(isinstance(each, BundleLine) for each in self.lines):
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
        if not isinstance(self.members, Mapping) or not all(type(each) is str for each in self.members.values()):
            raise InvalidParameter("members", self.members, "hashes by the names of members")
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
        raise InvalidParameter("path", str(path), "a file that ends in .zip")
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
            "questions", len(members), f"the lines of at most {MAX_ANSWERS:,} answers", fix="name fewer lines"
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
    questions = {each.number: each for each in account_report.questions}
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
