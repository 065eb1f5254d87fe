"""Seeded bugs where a candidate is scored: what one unit moves, which number of rows scales it, and what it costs."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOVES = ("publish/test_scoring.py::test_one_unit_moves_the_distance_within_its_bound",)
_LAW = ("publish/test_scoring.py::test_the_exact_law_of_both_numbers_loses_no_more_than_the_price",)
_DRAWN = ("publish/test_scoring.py::test_the_distance_is_taken_at_the_number_of_rows_that_was_drawn",)

MUTANTS = (
    Mutant(
        "the sensitivity is halved, as if half of the distance were measured",
        Kind.SENSITIVITY,
        "publish.scoring:SetDistance.sensitivity",
        "Sensitivity(1, self.grid * change, neighbours",
        "Sensitivity(1, self.grid * change / 2, neighbours",
        _MOVES,
    ),
    Mutant(
        "the candidate is scaled to the exact number of rows",
        Kind.REUSE,
        "publish.scoring:ScoreRelease.draw",
        "view = replace(self.view, total=scaled_row_count(total, self.unit_value))",
        "view = replace(self.view, "
        "total=scaled_row_count(int(self._row_count_view.extract(coded_rows)[0]), self.unit_value))",
        _DRAWN,
    ),
    Mutant(
        "the number of rows is told without noise",
        Kind.REUSE,
        "publish.scoring:ScoreRelease.draw",
        "total = int(Measurement(self._row_count_view, "
        "self.rows_noise).draw(self._row_count_view.extract(coded_rows))[0])",
        "total = int(self._row_count_view.extract(coded_rows)[0])",
        _DRAWN,
    ),
    Mutant(
        "the distance is told without noise",
        Kind.REUSE,
        "publish.scoring:ScoreRelease.draw",
        "int(Measurement(view, self.noise).draw(view.extract(coded_rows))[0])",
        "int(view.extract(coded_rows)[0])",
        ("publish/test_scoring.py::test_the_distance_has_noise",),
    ),
    Mutant(
        "both numbers cost the whole price",
        Kind.CHARGE_ORDER,
        "curator.proposals.scores:ScoreProposal._prepare_strategy",
        "noise = _calibrated_noise(view.sensitivity, amount - row_count_amount, gaussian)",
        "noise = _calibrated_noise(view.sensitivity, amount, gaussian)",
        ("publish/test_scoring.py::test_the_charge_is_the_price_and_no_more", *_LAW),
    ),
    Mutant(
        "the number of rows is taken for public where units are added",
        Kind.NEIGHBOURS,
        "curator.proposals.scores:ScoreProposal._public_row_count",
        "is_fixed = size is not None and self._bounded_plan(0).measures[0].sensitivity.neighbours.value == ",
        "is_fixed = size is not None or self._bounded_plan(0).measures[0].sensitivity.neighbours.value == ",
        _LAW,
    ),
    Mutant(
        "a stored score answers for any candidate",
        Kind.REUSE,
        "curator.proposals.scores:ScoreProposal.plan_key",
        "(self._candidate_hash, self.k, self.worst, str(self.total))",
        "(self.k, self.worst, str(self.total))",
        ("publish/test_scoring.py::test_a_score_is_stored_for_its_candidate_alone",),
    ),
    Mutant(
        "large counts wrap around before they are compared",
        Kind.WRAP,
        "publish.scoring:SetDistance._set_distance",
        "counts = np.minimum(CellCounts(self.reading, attribute_set).extract(exact), largest_count) * self.grid",
        "counts = CellCounts(self.reading, attribute_set).extract(exact) * self.grid",
        ("publish/test_scoring.py::test_numbers_near_the_ends_are_added_up_exactly",),
    ),
    Mutant(
        "a score is bounded for a unit that is added, whatever the neighbours are",
        Kind.NEIGHBOURS,
        "curator.proposals.scores:ScoreProposal._bounded_plan",
        "return for_neighbours(bounded, self._context.policy.neighbours)",
        "return bounded",
        _MOVES,
    ),
    Mutant(
        "both numbers of a score share their noise",
        Kind.REUSE,
        "publish.scoring:ScoreRelease.draw",
        "return self._build_score(total, int(Measurement(view, self.noise).draw(view.extract(coded_rows))[0]))",
        "noise = (total - int(self._row_count_view.extract(coded_rows)[0])) * self.view.grid * len(self.view.sets)\n"
        "    return self._build_score(total, int(view.extract(coded_rows)[0]) + noise)",
        _DRAWN,
    ),
    Mutant(
        "a stored score answers for a candidate with other counts in the same cells",
        Kind.REUSE,
        "publish.scoring:candidate_digest",
        "for array in (*rows.codes, rows.totals):",
        "for array in rows.codes:",
        ("publish/test_scoring.py::test_a_score_is_stored_for_its_candidate_alone",),
    ),
    Mutant(
        "a condition leaves the number of rows public",
        Kind.NEIGHBOURS,
        "curator.proposals.scores:ScoreProposal._public_row_count",
        "return Fraction(size or 0) if is_fixed and has_fixed_total(self._bounded_plan(0)) else None",
        "return Fraction(size or 0) if is_fixed else None",
        ("publish/test_scoring.py::test_a_condition_makes_the_number_of_rows_private",),
    ),
)

test_the_tests_of_scoring_notice = suite(MUTANTS)
