"""Docstrings are whole sentences: the first one has a verb of its own, and can be read without what stands around it.

This is a test of form by lists of words, not a grammar. It asks of the first sentence that it starts with an order
("Refuse …"), or that a finite verb stands before the first word that opens a clause ("that", "what", "whether"): "The
line after which a shell finds the command" has a clause and is no sentence. It knows only the verbs on its list (add
one that is missing), takes a plural noun for a verb where both are written alike, and does not see a clause without an
opening word ("the file it opened"). Whether a sentence is true, or says why, nobody but a reader can tell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src/sfumato"

ORDERS = """
accept acknowledge add adjust admit allow answer append apply ask begin bind bound bring build buy calibrate call
carry chain change charge check choose clamp close collect combine compare compose compute convert copy count cross
cut decide declare define derive describe discard divide draft draw drop encode end enumerate estimate evaluate
exchange explain export express extend fill find finish follow forget free freeze give go group guess hand hash hold
identify ignore import insert join keep label leave let lift limit list listen load locate look lower make map mark
match measure meet merge move multiply name narrow note open order parse pass pick play point prepare price print
propose prove push put quote raise randomise rank reach read recognise record refuse register release remember remove
repeat replace report resolve restore return reverse rewrite round run sample save say scale search see select sell
send serve set settle show simulate skip solve sort spawn spell split spread start state stop store strip sum switch
take tell test throw toss translate treat try turn understand undo unite use validate verify wait walk warn weigh
widen work wrap write
"""
VERBS = """
accepts add adds allows answer answers append applies are ask asks assumes be become becomes begin begins belong
belongs binds bounds breaks brings build builds buys calls can cannot carries carry catches changes charges checks
chooses closes collects come comes compares composes computes consists contain contains converts copies cost could
count counts cover covers decides declares depend depends derives describes did differ differs divides do does
dominates draws drops end ends enforces enters estimates exceed exceeds expects explains fall falls find finds fit
fits fixes follow follows forgets gain gains gave get gets give gives go goes grow grows guards had happen happens has
have hide hides hold holds identifies implies imply includes is join joins keep keeps know knows lack lacks lead leads
leak leaks learn learns leave leaves let lets lie lies list listens lists live lives look looks lose loses lowers make
makes matters maximises may mean means measures meet meets might move moves must name names need needs nest nests obey
obeys occurs open opens overwrites owns pairs pass passes pay pays pick picks play plays prevents prices prints
protect protects prove proves provides puts raises reach reaches read reads receive receives refers refuse refuses
registers relates releases remain remains remembers rename renames replaces reports require requires rest rests return
returns rise rises run runs say says see sees selects sell sells send serve serves sets shall share shares should show
shows sit sits skip skips solves spans speak speaks spends split splits stand stands start starts state states stay
stays stop stops store stores sum sums switch take takes tell tells travel travels treats tries turn turns understands
use uses validates varies vary wait waits walks want wants was were will win wins work works would wraps write writes
wrote
"""
OPENERS = """
after although as because before how if once since so than that though unless until what whatever when whenever where
wherever whether which while who whoever whom whose why
"""
QUESTIONS = "how what whatever where whether which who whoever whose why"
"""A sentence that begins with one of these is read twice before its verb is found, if it has one."""
ARTICLES = "a an every his its my of our the their"
"""What follows one of these is no verb: the name, a count, its share."""
NOUNS_TOO = (
    "count express group hash label limit list map mark match measure name note order play point price print quote "
    "rank record sample share state test"
)
PLURALS = "answers lists names prices releases stores"


def first_sentence(docstring: str) -> str:
    """Cut a docstring after its first stop, colon or semicolon, and leave out quotations, backticks and brackets."""
    text = " ".join(docstring.split(">>>")[0].split("\n\n")[0].split())
    text = re.sub(r"\([^()]*\)", "", re.sub(r'``[^`]*``|"[^"]*"', "X", text))
    return re.split(r"(?<=[^.A-Z][\w’')\]…!²³])\.(?:\s|$)|[:;](?:\s|$)", text, maxsplit=1)[0]


def is_sentence(text: str) -> bool:
    """Tell whether a text has a verb of its own, by the lists above."""
    words = [each.lower() for each in re.findall(r"[^\W\d_]+(?:[’'][a-z]+)?", text)]
    if not words:
        return False
    if words[0] in ORDERS.split():
        return words[0] not in NOUNS_TOO.split() or words[1:2] not in ([], ["of"])
    if (words[0] in VERBS.split() and words[0] not in PLURALS.split()) or words[0] in QUESTIONS.split():
        return False
    opened = next((place for place, each in enumerate(words) if each in OPENERS.split()), len(words))
    verbs, openers = (sum(each in known.split() for each in words[1:]) for known in (VERBS, OPENERS))
    main = (each for before, each in pairwise(words[:opened]) if before not in ARTICLES.split())
    return any(each in VERBS.split() for each in main) or (opened == 0 and verbs > openers + 1)


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Give every docstring of a file with the place that it stands at."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                name = getattr(node, "name", "the module")
                yield f"{path.relative_to(SOURCES)}:{getattr(node, 'lineno', 1)} {name}", text


def files() -> list[Path]:
    return sorted(SOURCES.rglob("*.py"))


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCES)))
def test_every_docstring_begins_with_a_whole_sentence(path: Path) -> None:
    first = [(place, first_sentence(text)) for place, text in docstrings(path)]
    wrong = [f"{place}: {sentence}" for place, sentence in first if not is_sentence(sentence)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "The curve of a loss.",
        "What is left, and how an owner changes it.",
        "Whether the claim survives: the samples do not refute it.",
        "The line after which a shell finds the command, unless it does already.",
        "Finds a hash of the content, which may mean to read all of it.",
        "List of names.",
        "The name as SQL writes it.",
        "P(L > ε).",
    ],
)
def test_a_noun_phrase_is_no_sentence(text: str) -> None:
    assert not is_sentence(first_sentence(text))


@pytest.mark.parametrize(
    "text",
    [
        "Refuse data that an account protects.",
        "A key threshold decides which keys may be shown, when naming a rare one would give its holder away.",
        "Releases on the same data together are (Σεᵢ, Σδᵢ)-DP (Dwork & Roth 2014, Thm 3.16).",
        "Tell whether a mean is of a small group.",
    ],
)
def test_sentences_are_found_to_be_such(text: str) -> None:
    assert is_sentence(first_sentence(text))


RULE_AT = {"Unsupported": 1, "LedgerDamaged": 1}
"""Where a refusal's rule stands among its arguments, unless it is the first."""
REFUSALS = """
AccountDiffers AlreadyAnswered InvalidPolicy LedgerDamaged LedgerUnavailable RequestDiffers SfumatoError SourceTaken
TabClosed Unsupported UsageError
"""


@cache
def rules(path: Path) -> tuple[tuple[str, str], ...]:
    """Give the rule of every refusal that is raised in a file and written there as a text."""
    return tuple(_rules(path))


def _rules(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if name in REFUSALS.split() and isinstance(node, ast.Call):
            rule = node.args[RULE_AT.get(name, 0)]
            parts = rule.values if isinstance(rule, ast.JoinedStr) else [rule]
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in parts)
            if re.search(r"[^X\W]", text):  # else it is named elsewhere
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", text


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCES)))
def test_every_refusal_begins_with_a_whole_sentence(path: Path) -> None:
    """What ``InvalidParameter`` says is one by its own making: "x must be …; got …"."""
    wrong = [f"{place}: {rule}" for place, rule in rules(path) if not is_sentence(rule.split(";")[0])]
    assert not wrong, "\n".join(wrong)


def test_refusals_are_found() -> None:
    assert sum(len(rules(path)) for path in files()) > 60
