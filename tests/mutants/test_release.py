"""Seeded bugs on the way of a release: price, charge, reading, noise, what is stored."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_ORDER = ("safety/test_order.py",)
_PREPARING = ("release/test_preparing.py",)
_RELEASING = ("release/test_releasing.py",)
_READINGS = ("plan/test_readings.py",)
_CURATED = ("games/test_curated.py",)
_JOINT = ("safety/test_joint.py::test_everything_that_is_drawn_is_drawn_for_itself",)
MUTANTS = (
    Mutant(
        "rows are read before the charge",
        Kind.CHARGE_ORDER,
        "release/releasing.py",
        "        known = paying.begin(",
        "        engine.totals(kind.batch.bounded, kind.groups, 7)\n        known = paying.begin(",
        _ORDER,
    ),
    Mutant(
        "an answer is shown that was not written down",
        Kind.CHARGE_ORDER,
        "release/releasing.py",
        "line = payer.answer(paying.line, body, accuracy)",
        "line = paying.line",
        _ORDER,
    ),
    Mutant(
        "why a release failed is told",
        Kind.CHARGE_ORDER,
        "release/releasing.py",
        "raise Unanswered(paying.line.number) from None",
        "raise",
        _ORDER,
    ),
    Mutant(
        "an interruption after the charge is told",
        Kind.CHARGE_ORDER,
        "release/releasing.py",
        "    except BaseException:\n",
        "    except Exception:\n",
        _ORDER,
    ),
    Mutant(
        "every measure gets the whole price",
        Kind.CHARGE_ORDER,
        "release/preparing.py",
        "None if each is None else each / count",
        "None if each is None else each",
        _PREPARING,
    ),
    Mutant(
        "a batch is charged as its first measurement",
        Kind.CHARGE_ORDER,
        "release/measurement.py",
        "compose(each.curve for each in self.measurements)",
        "compose(each.curve for each in self.measurements[:1])",
        _RELEASING,
    ),
    Mutant(
        "all measures move like the first",
        Kind.SENSITIVITY,
        "plan/readings.py",
        "return self.bounded.measures[self.measure]\n",
        "return self.bounded.measures[0]\n",
        _READINGS,
    ),
    Mutant(
        "any matrix is taken for a chain",
        Kind.NEIGHBOURS,
        "plan/readings.py",
        "return all(np.all(np.array(a) <= np.array(b)) for a, b in pairwise(columns))",
        "return True",
        _READINGS,
    ),
    Mutant(
        "a chain of signed sums is taken for one of counts",
        Kind.NEIGHBOURS,
        "plan/readings.py",
        "self.weights.chain and not scaled.signed:",
        "self.weights.chain:",
        _READINGS,
    ),
    Mutant(
        "a chain needs not begin above zero",
        Kind.SENSITIVITY,
        "plan/readings.py",
        "columns = [(0,) * len(self.rows), *sorted(zip(*self.rows, strict=True), key=sum)]",
        "columns = sorted(zip(*self.rows, strict=True), key=sum)",
        _READINGS,
    ),
    Mutant(
        "a selection is charged for half the spread of its scores",
        Kind.FACTOR_TWO,
        "games/curated.py",
        "sensitivity=scores.spread / 2,",
        "sensitivity=scores.spread / 4,",
        _CURATED,
    ),
    Mutant(
        "a selection need not cover the spread of its scores",
        Kind.SENSITIVITY,
        "release/measurement.py",
        "mechanism.grid > 1 or mechanism.rate * reading.spread > mechanism.epsilon",
        "mechanism.grid > 1",
        _CURATED,
    ),
    Mutant(
        "a selection for other neighbours is taken",
        Kind.NEIGHBOURS,
        "release/measurement.py",
        "if mechanism.neighbours is not reading.neighbours:",
        "if False:",
        _CURATED,
    ),
    Mutant(
        "a count of the buyers is charged for one bid of a bidder",
        Kind.SENSITIVITY,
        "plan/readings.py",
        "return Sensitivity(1, scaled.added.total, neighbours=",
        "return Sensitivity(1, 1, neighbours=",
        _READINGS,
    ),
    Mutant(
        "a tab's step is drawn without a charge",
        Kind.CHARGE_ORDER,
        "release/payers.py",
        "self._paid = self._tab.step(self._entry)",
        "self._paid = self._tab.opening",
        _RELEASING,
    ),
    Mutant(
        "totals stand at other groups",
        Kind.KEYS,
        "engine/duckdb/driver.py",
        "totals[row >= 0] = own[row[row >= 0]]",
        "totals[row >= 0] = own[: int((row >= 0).sum())]",
        ("release/test_releasing.py::test_totals_find_their_groups_whatever_the_order",),
    ),
    Mutant(
        "the two sums of a mean have the same noise",
        Kind.REUSE,
        "release/measurement.py",
        "    return mechanism.apply(exact)\n",
        "    return exact + mechanism.apply(np.zeros((len(exact), 1), np.int64))\n",
        _JOINT,
    ),
    Mutant(
        "all groups have the same noise",
        Kind.REUSE,
        "release/measurement.py",
        "    return mechanism.apply(exact)\n",
        "    return exact + mechanism.apply(np.zeros((1, exact.shape[1]), np.int64))\n",
        _JOINT,
    ),
    Mutant(
        "limits are stated for add-remove whatever the policy says",
        Kind.NEIGHBOURS,
        "curator/questions.py",
        "return tuple(for_neighbours(each, self._context.policy.neighbours) for each in found)",
        "return tuple(found)",
        ("safety/test_audit.py",),
    ),
    Mutant(
        "a release is charged for a change of one",
        Kind.SENSITIVITY,
        "release/measurement.py",
        "Charged(each.mechanism, each.sensitivity)",
        "Charged(each.mechanism, each.sensitivity and 1)",
        ("release/test_releasing.py::test_what_is_charged_is_the_curve_of_what_is_run",),
    ),
    Mutant(
        "an answer is not rehearsed before the charge",
        Kind.CHARGE_ORDER,
        "release/proposal.py",
        "        _rehearse(kind, show)\n",
        "",
        ("curator/test_extremes.py::test_what_cannot_be_written_down_is_refused_before_the_charge",),
    ),
    Mutant(
        "totals are read before the question begins",
        Kind.CHARGE_ORDER,
        "release/releasing.py",
        "    try:\n        known = paying.begin(",
        "    totals = engine.totals(kind.batch.bounded, kind.groups, bits.integer(62))\n"
        "    try:\n        known = paying.begin(",
        ("safety/test_order.py::test_nothing_is_read_before_the_charge_and_nothing_shown_before_it_is_written_down",),
    ),
    Mutant(
        "every sample has the same key",
        Kind.REUSE,
        "release/releasing.py",
        "engine.totals(kind.batch.bounded, kind.groups, bits.integer(62))",
        "engine.totals(kind.batch.bounded, kind.groups, 1 << 61)",
        ("safety/test_samples.py::test_every_release_has_a_key_of_its_own",),
    ),
)

test_the_tests_of_releases_notice = suite(MUTANTS)
