"""Seeded bugs in the mathematics of loss."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_CHARGES = "privacy/test_charges.py::test_a_charge_is_what_was_computed_independently"
MUTANTS = (
    Mutant(
        "to replace a unit costs as much as to add one",
        Kind.NEIGHBOURS,
        "privacy.curve:Curve.for_neighbours",
        "Curve(self.group(2).parts, relation)",
        "Curve(self.parts, relation)",
        (
            "privacy/test_curve.py::test_relations_are_not_mixed",
            "privacy/test_theorems.py::test_replace_is_never_costed_as_add_remove",
        ),
    ),
    Mutant(
        "a float above a number is the nearest one",
        Kind.ROUNDING,
        "privacy.numbers:decimal_float_above",
        "        nearest = math.nextafter(nearest, math.inf)",
        "        break",
        ("privacy/test_numbers.py::test_directed_rounding_brackets_the_value_by_its_meaning",),
    ),
    Mutant(
        "the Rényi charge is the computed float",
        Kind.ROUNDING,
        "privacy.curve:Curve._compute_renyi_above",
        "value * (1 + 2.0 ** (-41)) + margin",
        "value",
        (
            "privacy/test_curve.py",
            "privacy/test_losses.py",
        ),
    ),
    Mutant(
        "advanced composition without its two",
        Kind.FACTOR_TWO,
        "privacy.theorems:advanced",
        "math.sqrt(-2 * count * math.log(slack_delta))",
        "math.sqrt(-count * math.log(slack_delta))",
        ("privacy/test_theorems.py::test_advanced_composition",),
    ),
    Mutant(
        "discrete Laplace noise is priced as continuous",
        Kind.SAMPLING,
        "privacy.curve:Curve.discrete_laplace",
        "LaplaceLoss(size / b, 1 / b)",
        "LaplaceLoss(size / b)",
        (
            "privacy/test_curve.py::test_sensitivity_reaches_the_noise",
            "privacy/test_losses.py::test_renyi_vectors_of_the_discrete_laplace",
        ),
    ),
    Mutant(
        "what is impossible without the unit is forgotten",
        Kind.DELTA,
        "privacy.losses:PairLoss.failure",
        "return 1 - sum((a for a, _ in self._common_outcomes), ZERO)",
        "return ZERO",
        ("privacy/test_losses.py", "privacy/test_composition.py"),
    ),
    Mutant(
        "what has no bound costs nothing",
        Kind.CHARGE_ORDER,
        "privacy.budget:_sum_if_both_stated",
        "return None if a is None or b is None else amounts.add_rounded_up(a, b)",
        "return (a or 0) + (b or 0)",
        ("privacy/test_budget.py::test_gaussian_noise_closes_the_pure_currency",),
    ),
    Mutant(
        "a missing cost takes the other's place",
        Kind.CHARGE_ORDER,
        "privacy.budget:_sum_if_both_stated",
        "return None if a is None or b is None else amounts.add_rounded_up(a, b)",
        "return b if a is None else a if b is None else a + b",
        ("privacy/test_budget.py::test_the_sum_of_costs_misses_what_any_of_them_misses",),
    ),
    Mutant(
        "a loss that is never positive has no lattice",
        Kind.DELTA,
        "privacy.losses:PairLoss.is_zero_where_finite",
        "all((a == b for a, b in self._common_outcomes))",
        "self.largest_finite_loss == 0",
        ("privacy/test_fuzz.py::test_a_loss_that_is_never_positive_has_its_own_lattice",),
    ),
    Mutant(
        "replaced units are composed in one order of all parts or the other",
        Kind.NEIGHBOURS,
        "privacy.shape:charged_directions",
        "(tuple(((loss.symmetrised(), count) for loss, count in parts)),)",
        "(parts, tuple(((loss.reversed(), count) for loss, count in parts)))",
        ("privacy/test_replace.py::test_two_parts_in_opposite_orders",),
    ),
    Mutant(
        "replaced units are charged in one order of all parts",
        Kind.NEIGHBOURS,
        "privacy.curve:Curve._parts_in_worst_order",
        "tuple(((max(loss, loss.reversed(), key=divergence), count) for loss, count in self.parts))",
        "self.parts",
        ("privacy/test_replace.py::test_a_batch_is_charged_the_worse_order_of_every_part",),
    ),
    Mutant(
        "the hull of both orders is that of one",
        Kind.NEIGHBOURS,
        "privacy.pairs:symmetrised_masses",
        "return _pair_from_power_curve(concave_hull([*roc_corners(p, q), *roc_corners(q, p)]))",
        "return _pair_from_power_curve(concave_hull(roc_corners(p, q)))",
        ("privacy/test_replace.py::test_symmetrising_gives_the_larger_divergence_of_both_orders_and_no_more",),
    ),
    Mutant(
        "an exchange of values is read as one unit",
        Kind.NEIGHBOURS,
        "privacy.reading:_replacement_curve",
        "return curve.for_neighbours(Neighbours.REPLACE)",
        "return curve",
        ("privacy/test_reading.py::test_values_under_add_remove_are_read_from_a_change_of_two_units",),
    ),
    Mutant(
        "an account charges a millionth less than the Rényi divergence",
        Kind.ROUNDING,
        "privacy.budget:Budget.cost",
        "units_rounded_up(curve.renyi_above(self.order))",
        "units_rounded_up(curve.renyi_above(self.order) * Fraction(999_999, 1_000_000))",
        (_CHARGES,),
    ),
    Mutant(
        "a share accepts what its account would",
        Kind.CHARGE_ORDER,
        "privacy.budget:Budget.largest_pure",
        "self.allowances)",
        "None)",
        ("privacy/test_budget.py::test_the_largest_pure_release_of_a_share_is_its_own",),
    ),
    Mutant(
        "an account charges a millionth less than ε",
        Kind.ROUNDING,
        "privacy.budget:Budget.cost",
        "None if pure is None else charge_amount(pure)",
        "None if pure is None else charge_amount(pure * Fraction(999_999, 1_000_000))",
        (_CHARGES,),
    ),
    Mutant(
        "an account charges a millionth less than the probability of a failure",
        Kind.DELTA,
        "privacy.budget:Budget.cost",
        "curve.failure",
        "curve.failure * Fraction(999999, 1000000)",
        (_CHARGES,),
    ),
    Mutant(
        "a divergence is rounded to the nearest float",
        Kind.ROUNDING,
        "privacy.curve:Curve._compute_renyi_above",
        "value * (1 + 2.0 ** (-41)) + margin",
        "value * (1 - 2.0 ** (-41))",
        (_CHARGES,),
    ),
)

test_the_tests_of_losses_notice = suite(MUTANTS)
