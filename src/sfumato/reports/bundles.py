"""A bundle is one zip file that an owner signs: answers with their receipts, the page, and the proof of the chain.

The manifest has the SHA-256 of every other member but the signature, and the signature is of the manifest. Members are
stored as they are, in one order, with one date: whoever reads a bundle writes the zip again and compares, so no byte of
it can be changed, added or moved, and nothing in it is unpacked to more than the file itself holds.

Of a line whose question is not shown, the bundle tells when it was written, its kind, what it cost and the hashes. What
was run is told of shown lines alone, since mechanisms may hold numbers that a question named.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sfumato.errors import InvalidParameter
from sfumato.ledger import Line
from sfumato.ledger.spending import write_cost
from sfumato.policy import Policy
from sfumato.privacy import Budget, codec
from sfumato.publish.files.sealed_files import check_place, save, zipped
from sfumato.release.answers.answer import Answer
from sfumato.reports.signing_keys import SigningKey
from sfumato.reports.telling import AccountReport, Questions, ReportedQuestion, page, told
from sfumato.version import __version__

MANIFEST, CHAIN, PAGE, README, SIGNATURE = "manifest.json", "chain.json", "report.html", "README.txt", "signature.json"
FORMAT = 1
MOST_ANSWERS = 60_000
"""Answers of one bundle: a zip counts its members in 16 bits."""
_SIGNED = b"sfumato bundle 1\n"
"""Stands before what is signed, so that no other signature of the key can be taken for one of a bundle."""
_README = """This is a signed bundle of answers under differential privacy.

manifest.json   whom it protects, the budget, and the SHA-256 of each of the other files
chain.json      every line of the account: when, what it cost, its hash; and the hashes of all lines of the ledger
answers/        answers whose questions are shown, with ranges and receipts, named by their lines
report.html     the same as a page
signature.json  the owner's Ed25519 signature of manifest.json

Check it offline, with the owner's public key from another place than this file:

    sfumato verify bundle.zip --key owner.key.pub
"""


@codec.value("bundle-line")
@dataclass(frozen=True)
class BundleLine:
    """This is one line of the account as a bundle tells it."""

    number: int
    time: str
    line_kind: str
    account: int
    """0 for the account itself; others are of its periods, in the order in which they were opened."""
    cost: str
    """What the line spent, per currency: units of 1e-30, or a fraction of ε or δ (``privacy.amounts``)."""
    spent: str
    """What its account had spent after it."""
    hash: str
    about: int = 0
    """The line that an answer answers."""
    asked: str = ""
    """The salted hash of the question's text, where the line has a question."""
    question: str = ""
    salt: str = ""
    parts: str = ""
    """What was run, where the question is shown: the cost can be computed from it."""

    def __post_init__(self) -> None:
        codec.check_fields(self)


@codec.value("bundle-chain")
@dataclass(frozen=True)
class BundleChain:
    """This is the proof of the chain: the account's lines, and the hash of each line of the ledger up to the last."""

    lines: tuple[BundleLine, ...]
    hashes: tuple[str, ...]

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.lines) is not tuple or not all(isinstance(each, BundleLine) for each in self.lines):
            raise InvalidParameter("lines", self.lines, "lines of an account")


@codec.value("bundle")
@dataclass(frozen=True)
class BundleManifest:
    """A manifest says what a bundle is of, who signs it, and the hash of each of its other members."""

    format: int
    made: str
    software: str
    unit: str
    neighbours: str
    budgets: tuple[Budget, ...]
    """Every budget that the account has had, oldest first; nothing is spent of these."""
    held: str
    """What open series hold beside what is spent."""
    key: str
    members: Mapping[str, str] = field(metadata=codec.MAPPING)

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.budgets) is not tuple or not self.budgets or not all(isinstance(b, Budget) for b in self.budgets):
            raise InvalidParameter("budgets", self.budgets, "the budgets of an account")
        known = isinstance(self.members, Mapping) and all(type(each) is str for each in self.members.values())
        if not known:
            raise InvalidParameter("members", self.members, "hashes by the names of members")
        object.__setattr__(self, "members", dict(self.members))


@codec.value("bundle-signature")
@dataclass(frozen=True)
class BundleSignature:
    """This is a signature of the manifest, and the public key that checks it."""

    key: str
    signature: str
    algorithm: str = ""

    def __post_init__(self) -> None:
        codec.check_fields(self)


def bundle(
    policy: Policy | str | os.PathLike[str],
    key: SigningKey,
    path: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    *,
    questions: Questions = False,
    title: str | None = None,
) -> AccountReport:
    """Write the signed bundle of a policy's account, and give what it tells: answers are in it whose questions are
    shown, all of them or those of these lines.
    """
    if Path(path).suffix.lower() != ".zip":
        raise InvalidParameter("path", str(path), "a file that ends in .zip")
    check_place(path)
    found = told(policy, ledger, questions=questions)
    save(written(found, key, title), path)
    return found


def written(found: AccountReport, key: SigningKey, title: str | None = None) -> bytes:
    """Give the bytes of a signed bundle."""
    beside = {
        CHAIN: codec.dumps(chain(found)).encode(),
        **{name: answer.to_json().encode() for name, answer in answers(found.asked)},
        PAGE: page(found, title).html.encode(),
        README: _README.encode(),
    }
    if len(beside) > MOST_ANSWERS:
        raise InvalidParameter("questions", len(beside), f"at most {MOST_ANSWERS:,} answers", fix="name fewer lines")
    manifest = codec.dumps(
        BundleManifest(
            FORMAT,
            found.made.isoformat(),
            f"sfumato {__version__}",
            *promised(found),
            key.public.raw.hex(),
            {name: hashlib.sha256(content).hexdigest() for name, content in beside.items()},
        )
    ).encode()
    signed = BundleSignature(key.public.raw.hex(), key.sign(signed_text(manifest)).hex(), "Ed25519")
    return zipped({MANIFEST: manifest, **beside, SIGNATURE: codec.dumps(signed).encode()})


def promised(found: AccountReport) -> tuple[str, str, tuple[Budget, ...], str]:
    """Give what a manifest states of the account: the unit, the neighbours, every budget, and what is held."""
    return str(found.unit), found.neighbours.value, found.budgets, write_cost(_newest(found.lines).held)


def signed_text(manifest: bytes) -> bytes:
    """Give what is signed of a manifest."""
    return _SIGNED + manifest


def answers(asked: Sequence[ReportedQuestion]) -> Iterator[tuple[str, Answer]]:
    """List the answers that are shown, each with the name of its member."""
    for each in asked:
        if each.answer is not None:
            yield f"answers/{each.answer_line:08d}.json", each.answer


def chain(found: AccountReport) -> BundleChain:
    """Give the proof of the chain."""
    places: dict[str, int] = {}
    asked = {each.number: each for each in found.asked}
    lines = [_line(each, places, asked.get(each.number)) for each in found.lines]
    return BundleChain(tuple(lines), found.hashes)


def _line(line: Line, places: dict[str, int], asked: ReportedQuestion | None) -> BundleLine:
    told_of = BundleLine(
        line.number,
        line.time.isoformat(),
        line.kind,
        places.setdefault(line.account, len(places)),
        write_cost(line.cost),
        write_cost(line.spent),
        line.hash,
        line.about or 0,
        asked.hash if asked is not None else "",
    )
    if asked is None or asked.question is None:
        return told_of
    return replace(told_of, question=asked.question, salt=asked.salt or "", parts=line.parts)


def _newest(lines: Sequence[Line]) -> Line:
    return next(each for each in reversed(lines) if each.account == lines[0].account)
