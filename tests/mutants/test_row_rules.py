"""Seeded bugs where rows are drawn under conditions and constraints, from a seed, and written to files."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "publish/test_row_rules.py::"
_LAW = (_TESTS + "test_rows_given_conditions_have_the_law_of_the_joint_table_given_them",)
_CONSTRAINT = (_TESTS + "test_rows_within_a_constraint_have_the_law_of_rows_given_it",)
_SEEDED = (_TESTS + "test_a_seed_repeats_rows_and_needs_no_entropy",)

MUTANTS = (
    Mutant(
        "a bin of which one value is allowed weighs as much as all of it",
        Kind.SAMPLING,
        "publish.row_rules:_share_of_bin",
        "return allowed / (steps or length or 1.0)",
        "return 1.0",
        _LAW,
    ),
    Mutant(
        "a condition does not fix the value within its bin",
        Kind.KEYS,
        "publish.row_rules:RowRules.set_fixed_values",
        "column.set_values(rows, source)",
        "pass",
        _LAW,
    ),
    Mutant(
        "rows that break a constraint are kept",
        Kind.KEYS,
        "publish.row_rules:RowRules.accepted_rows",
        "accepted &= ~row_truths(rows, constraint, face, everywhere).false",
        "pass",
        _CONSTRAINT,
    ),
    Mutant(
        "a constraint that is NULL is broken",
        Kind.NAN,
        "publish.row_rules:RowRules.accepted_rows",
        "accepted &= ~row_truths(rows, constraint, face, everywhere).false",
        "accepted &= row_truths(rows, constraint, face, everywhere).true",
        (_TESTS + "test_null_passes_a_constraint_and_meets_no_condition",),
    ),
    Mutant(
        "a factor on columns that no clique holds is dropped",
        Kind.SAMPLING,
        "publish.row_rules:_with_factor",
        "return GraphicalModel.from_potentials(model.sizes, (*model.potentials, potential), model.total)",
        "return model",
        (_TESTS + "test_whole_cells_that_break_a_constraint_are_never_drawn_although_no_clique_held_them",),
    ),
    Mutant(
        "a sum need not lie in the cell that was drawn",
        Kind.KEYS,
        "publish.row_rules:RowRules.accepted_rows",
        " & computed.rows_within_cells(rows)",
        "",
        (_TESTS + "test_a_computed_sum_has_the_law_of_rows_whose_sum_lies_in_the_drawn_cell",),
    ),
    Mutant(
        "rows that the policy turned to NULL are kept under conditions",
        Kind.KEYS,
        "publish.row_rules:RowRules.accepted_rows",
        "accepted &= column.weights[rows.codes[:, column.attribute_index]] > 0",
        "pass",
        (_TESTS + "test_conditions_that_the_policy_cuts_within_cells_are_refused",),
    ),
    Mutant(
        "fewer rows than asked for are returned without a word",
        Kind.HOSTILE,
        "publish.row_rules:draw_accepted",
        "raise _rare_rows_refusal(texts, accepted_count, drawn, rows)",
        "break",
        (_TESTS + "test_rows_that_are_too_rare_are_refused_with_their_count",),
    ),
    Mutant(
        "a seed decides only a part of the draws",
        Kind.SAMPLING,
        "publish.sampling:_stratified_counts",
        "bits.random_uint16(2 * rows, source)",
        "bits.random_uint16(2 * rows)",
        _SEEDED,
    ),
    Mutant(
        "every seed draws the same rows",
        Kind.SAMPLING,
        "publish.sampling:seeded_bytes",
        "% seed",
        "% 0",
        _SEEDED,
    ),
    Mutant(
        "noise can be drawn from given bytes",
        Kind.REUSE,
        "mechanisms.gaussian:_are_proposals_accepted",
        "bits.random_uint64(y.size)",
        "bits.random_uint64(y.size, None)",
        (_TESTS + "test_only_the_drawing_of_rows_can_be_given_bytes",),
    ),
    Mutant(
        "exact figures may stand on a card that others read",
        Kind.CONSENT,
        "publish.model_cards:_score_text",
        "not isinstance(score, CandidateScore) or score.receipt is None or score.is_preview",
        "False",
        ("publish/test_model_cards.py::test_scores_are_bought_and_named_with_their_price",),
    ),
    Mutant(
        "texts of a publisher are markup on the page",
        Kind.HOSTILE,
        "publish.model_cards:ModelCard.to_html",
        "<h1>{escape(self.name)}</h1>",
        "<h1>{self.name}</h1>",
        ("publish/test_model_cards.py::test_texts_of_the_publisher_are_no_markup",),
    ),
)

test_the_tests_of_conditions_notice = suite(MUTANTS)
