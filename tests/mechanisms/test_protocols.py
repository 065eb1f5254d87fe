"""Every mechanism is additive, a selection or interactive, and says of itself what the rest of the system asks."""

from __future__ import annotations

import ast
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import mechanisms
from sfumato.mechanisms.additive import FAMILIES
from sfumato.mechanisms.protocols import Additive, Interactive, SelectionMechanism

SOURCES = Path(sf.__file__).parent

# The annotations are checked too: a signature that does not fit its protocol is a type error.
ADDITIVE: tuple[Additive, ...] = (sf.Laplace(10), sf.Gaussian([1, 2], grid="0.5"))
SELECTIONS: tuple[SelectionMechanism, ...] = (
    sf.Exponential(1),
    sf.PermuteAndFlip(1),
    sf.NoisyMax(1, noise="gumbel"),
    sf.TopK(1, k=3),
    sf.RandomizedResponse(1, 4),
    sf.OptimizedUnaryEncoding(1, 4),
    sf.OptimalLocalHashing(1, 4),
    sf.Quantiles(["0.25", "0.5"], 1, (0, 100)),
    sf.FrequentValues(1, rows_per_unit=3, k=2),
    sf.KeyThreshold(1, "1e-6"),
    sf.KeyThreshold(1, "1e-6", max_groups=4),
    sf.KeyThreshold.gaussian(1, "1e-6", 4),
)
INTERACTIVE: tuple[Interactive, ...] = (sf.AboveThreshold(1, 100, values_epsilon=1),)
EVERY = (*ADDITIVE, *SELECTIONS, *INTERACTIVE)
OTHERS = {"Estimate", "MaxNoise", "Session", "SessionReceipt", "best_selection"}
"""What the package exports beside mechanisms: what they return and how they are chosen."""


def test_every_mechanism_is_walked() -> None:
    assert {type(each).__name__ for each in EVERY} | OTHERS == set(mechanisms.__all__)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_each_is_one_of_the_three(mechanism: Additive | SelectionMechanism | Interactive) -> None:
    kinds = [kind for kind in (Additive, SelectionMechanism, Interactive) if isinstance(mechanism, kind)]
    assert len(kinds) == 1
    assert mechanism.interactive is (kinds == [Interactive])
    assert isinstance(mechanism.curve(), sf.Curve)
    assert sf.loads(sf.dumps(mechanism)) == mechanism


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_additive_noise_says_its_size(mechanism: Additive) -> None:
    change = sf.Sensitivity(groups=4, per_group=3)
    assert mechanism.norm(change) == (change.l1 if mechanism.order == 1 else Fraction(change.l2))
    assert mechanism.error("0.99", 3) >= mechanism.error("0.5")
    assert type(mechanism).of_size(Fraction(7)).sizes == (7,)
    assert mechanism.words(Fraction(1, 2)) != mechanism.words()
    assert type(mechanism) in FAMILIES


@pytest.mark.parametrize("mechanism", SELECTIONS, ids=repr)
def test_selections_say_how_wrong_they_may_be(mechanism: SelectionMechanism) -> None:
    among = (sf.Exponential, sf.PermuteAndFlip, sf.NoisyMax, sf.TopK, sf.FrequentValues)
    about = (10,) if isinstance(mechanism, among) else ()
    assert 0 < mechanism.error(*about, confidence="0.9") <= mechanism.error(*about, confidence="0.999")
    assert "ε 1" in mechanism.words()


@pytest.mark.parametrize("mechanism", INTERACTIVE, ids=repr)
def test_interactive_ones_begin_and_say_what_they_cost_in_all(mechanism: Interactive) -> None:
    assert "ε 2 in total" in mechanism.words()
    assert mechanism.error(100, "0.9") > mechanism.error(1, "0.9")
    with mechanism.start() as session:
        assert session.remaining == 1


@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999999"])
@pytest.mark.parametrize(
    "keys", [each for each in SELECTIONS if isinstance(each, sf.KeyThreshold)], ids=lambda keys: repr(keys)
)
def test_a_key_with_so_many_units_is_kept_with_this_confidence(keys: sf.KeyThreshold, confidence: str) -> None:
    least = int(keys.error(confidence))
    assert keys.chance(least) >= float(confidence) > keys.chance(least - 1)


def _asks_which_class(node: ast.AST) -> bool:
    """``hasattr`` of a mechanism, or ``isinstance`` with the name of a kind of noise."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    if node.func.id == "hasattr":
        return bool(names & {"mechanism", "noise", "selection"})
    return node.func.id == "isinstance" and bool(names & {"Laplace", "Gaussian"})


@pytest.mark.parametrize("package", ["audit", "curator", "ledger", "release"])
def test_nobody_asks_which_class_a_mechanism_is(package: str) -> None:
    for path in (SOURCES / package).glob("*.py"):
        found = [node for node in ast.walk(ast.parse(path.read_text())) if _asks_which_class(node)]
        assert not found, f"{path.name}:{found[0]}"


def test_the_search_for_such_questions_finds_them() -> None:
    for text in ("isinstance(x, Laplace)", "isinstance(x, (sf.Laplace, sf.Gaussian))", "hasattr(mechanism, 'start')"):
        assert any(map(_asks_which_class, ast.walk(ast.parse(text))))
