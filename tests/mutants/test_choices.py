"""Seeded bugs in bounds and limits that are found privately: what one unit moves, what is drawn and charged."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_BOUNDS, _LIMITS, _LADDERS = (
    f"curator/{name}.py::"
    for name in ("proposals/test_private_bounds", "proposals/test_private_limits", "test_ladders")
)
_LAW = (f"{_BOUNDS}test_no_outcome_is_more_than_e_to_the_epsilon_likelier",)
_WORLDS = (f"{_BOUNDS}test_one_unit_moves_no_more_than_is_claimed_in_any_small_world",)
_DRAWN = (f"{_BOUNDS}test_what_is_drawn_is_the_counts_and_the_two_numbers_and_nothing_else",)
MUTANTS = (
    Mutant(
        "the counts of the steps get the whole price, and the numbers outside a part of it too",
        Kind.CHARGE_ORDER,
        "curator.step_counts:StepSearch.calibrated",
        "(epsilon * (1 - _COUNTING_SHARE))",
        "epsilon",
        _LAW,
    ),
    Mutant(
        "a unit that is replaced moves the numbers inside and outside as one that is added",
        Kind.NEIGHBOURS,
        "plan.readings.total_readings:ChosenGroups.sensitivity",
        "return added.for_neighbours(scaled.sensitivity.neighbours, signed=False)",
        "return Sensitivity(2, added.per_group, added.total, neighbours=scaled.sensitivity.neighbours)",
        _WORLDS,
    ),
    Mutant(
        "the plan is bounded for a unit that is added, whatever the neighbours are",
        Kind.NEIGHBOURS,
        "curator.proposals.private_bounds:BoundsProposal.bounded",
        "return for_neighbours(bounded, self._context.policy.neighbours)",
        "return bounded",
        _WORLDS,
    ),
    Mutant(
        "the steps are chosen by exact counts",
        Kind.REUSE,
        "curator.step_counts:StepSearch.draw",
        "self._select_span(noisy_counts) or (None, None)",
        "self._select_span(self.step_counts.reading.of(totals).reshape(-1)) or (None, None)",
        _DRAWN,
    ),
    Mutant(
        "the numbers inside and outside are exact",
        Kind.REUSE,
        "curator.step_counts:StepSearch.draw",
        "inside, outside = self.inside_outside.draw("
        "reading.sum_inside_and_outside(reading.extract(totals), self._inside_mask(first, last)))",
        "inside, outside = reading.sum_inside_and_outside(reading.extract(totals), self._inside_mask(first, last))",
        _DRAWN,
    ),
    Mutant(
        "a missing value is on the first step",
        Kind.NAN,
        "curator.proposals.private_bounds:BoundsProposal._plan",
        "return Aggregate(limit_rows_per_unit(present_rows), ",
        "return Aggregate(limit_rows_per_unit(scan), ",
        (f"{_BOUNDS}test_rows_that_are_units_all_count",),
    ),
    Mutant(
        "every row of a unit counts",
        Kind.LIMITS,
        "curator.proposals.private_bounds:BoundsProposal._plan",
        "return Aggregate(limit_rows_per_unit(present_rows), ",
        "return Aggregate(Filter(Scan(table.name, True, 0, {column_field: domain}, ONE_ROW), present_rows.predicate), ",
        (f"{_BOUNDS}test_rows_beyond_every_limit_are_one_unit_still",),
    ),
    Mutant(
        "a search that covers less is taken for the one that was bought",
        Kind.REUSE,
        "curator.proposals.private_bounds:BoundsProposal.plan_key",
        "('bounds', self.bounded.plan, self.cover, len(self.ladder))",
        "('bounds', self.bounded.plan, len(self.ladder))",
        (f"{_BOUNDS}test_a_release_is_charged_and_found_again",),
    ),
    Mutant(
        "rows of one unit are counted up to the limit of the policy",
        Kind.LIMITS,
        "curator.proposals.limit_proposals:LimitsProposal._unit_relation",
        "rows = UnitRowCount(None, MAX_LIMIT)",
        "rows = UnitRowCount(None, scan.limits.rows)",
        (f"{_LIMITS}test_rows_and_groups_are_counted_beyond_every_limit_of_the_policy",),
    ),
    Mutant(
        "limits of rows and of groups each cost the whole price",
        Kind.CHARGE_ORDER,
        "curator.proposals.limit_proposals:LimitsProposal._strategy_at",
        "exact_epsilon / len(self._limit_names)",
        "exact_epsilon",
        (f"{_LIMITS}test_a_release_is_charged_and_found_again",),
    ),
    Mutant(
        "empty steps seem filled",
        Kind.SAMPLING,
        "curator.step_counts:_FALSE_POSITIVE_RATE",
        "_FALSE_POSITIVE_RATE = Fraction(1, 200)",
        "_FALSE_POSITIVE_RATE = Fraction(1, 2)",
        (f"{_LADDERS}test_empty_steps_hardly_ever_seem_filled",),
    ),
)

test_the_tests_of_private_choices_notice = suite(MUTANTS)
