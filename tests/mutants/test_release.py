"""Seeded bugs on the way of a question: price, charge, noise."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_FAILURES = ("safety/test_failures.py",)
_PREPARING = ("release/test_preparing.py",)
MUTANTS = (
    Mutant(
        "rows are read before the charge",
        Kind.CHARGE_ORDER,
        "release/door.py",
        "        charge = account.charge(entry)\n",
        "        engine.totals(bounded, groups, 7)\n        charge = account.charge(entry)\n",
        ("safety/test_order.py",),
    ),
    Mutant(
        "an answer is shown that was not written down",
        Kind.CHARGE_ORDER,
        "release/door.py",
        "line = account.answer(charge, found.body, found.accuracy)",
        "line = charge",
        ("safety/test_order.py",),
    ),
    Mutant(
        "why a release failed is told",
        Kind.CHARGE_ORDER,
        "release/door.py",
        "raise Unanswered(charge.number) from None",
        "raise",
        ("safety/test_order.py",),
    ),
    Mutant(
        "an interruption after the charge is told",
        Kind.CHARGE_ORDER,
        "release/door.py",
        "    except BaseException:\n",
        "    except Exception:\n",
        ("safety/test_order.py",),
    ),
    Mutant(
        "every measure gets the whole price",
        Kind.CHARGE_ORDER,
        "release/preparing.py",
        "size * count / price.epsilon",
        "size / price.epsilon",
        _PREPARING,
    ),
    Mutant(
        "a release is charged as if all measures moved like the first",
        Kind.SENSITIVITY,
        "release/preparing.py",
        "mechanism.curve(measure.sensitivity)",
        "mechanism.curve(bounded.measures[0].sensitivity)",
        _PREPARING,
    ),
    Mutant(
        "half of ρ is charged",
        Kind.FACTOR_TWO,
        "release/preparing.py",
        "math.sqrt(count / (2 * price.rho))",
        "math.sqrt(count / (4 * price.rho))",
        _PREPARING,
    ),
    Mutant(
        "the two sums of a mean have the same noise",
        Kind.REUSE,
        "release/door.py",
        "mechanism.apply(np.array(columns, dtype=np.int64)).tolist()",
        "(np.array(columns, dtype=np.int64) + mechanism.apply(np.zeros(len(columns[0]), np.int64))).tolist()",
        ("safety/test_joint.py::test_everything_that_is_drawn_is_drawn_for_itself",),
    ),
    Mutant(
        "all groups have the same noise",
        Kind.REUSE,
        "release/door.py",
        "mechanism.apply(np.array(columns, dtype=np.int64)).tolist()",
        "(np.array(columns, dtype=np.int64) + mechanism.apply(np.zeros((len(columns), 1), np.int64))).tolist()",
        ("safety/test_joint.py::test_everything_that_is_drawn_is_drawn_for_itself",),
    ),
    Mutant(
        "limits are stated for add-remove whatever the policy says",
        Kind.NEIGHBOURS,
        "curator/questions.py",
        "return tuple(under(each, self._context.policy.neighbours) for each in found)",
        "return tuple(found)",
        ("safety/test_audit.py",),
    ),
)

test_the_tests_of_releases_notice = suite(MUTANTS)
