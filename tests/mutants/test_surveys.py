"""Seeded bugs in surveys: what a report tells, what an estimate says, what is let in."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_FORMS, _COUNTS, _CHOOSING = (f"surveys/test_{name}.py::test_" for name in ("forms", "counts", "choosing"))
_LAW = (f"{_FORMS}no_answer_changes_the_chance_of_a_report_by_more_than_the_guarantee",)
_UNBIASED = (f"{_FORMS}estimates_are_exactly_unbiased",)
_HOLD = (f"{_COUNTS}intervals_of_counts_hold_for_every_number_of_holders",)
_PAIRS = (f"{_COUNTS}the_variance_of_a_pair_is_bounded_for_every_population",)
_HOSTILE = (f"{_FORMS}hostile_reports_are_refused_one_by_one",)
MUTANTS = (
    Mutant(
        "every question of a split form gets the whole price",
        Kind.FACTOR_TWO,
        "surveys.counts:epsilon_per_question",
        "return epsilon if sampled else epsilon / questions",
        "return epsilon",
        _LAW,
    ),
    Mutant(
        "the question that is asked depends on the answers",
        Kind.SAMPLING,
        "surveys.forms:Form.answer",
        "sampled_question = bits.random_below(len(cells))",
        "sampled_question = cells[0] % len(cells)",
        _LAW,
    ),
    Mutant(
        "a sampled form sends one part of the first question in the place of the one that was asked",
        Kind.SAMPLING,
        "surveys.forms:Form.answer",
        "randomise(self.mechanisms[sampled_question], cells[sampled_question])",
        "randomise(self.mechanisms[sampled_question], cells[0])",
        _UNBIASED,
    ),
    Mutant(
        "one draw of bits is sent as the answers themselves",
        Kind.SAMPLING,
        "surveys.encodings:randomise",
        "return int(mechanism.choose(cell))",
        "return cell",
        _LAW,
    ),
    Mutant(
        "the loss of a report is stated for units that are added or removed",
        Kind.NEIGHBOURS,
        "surveys.forms:Form.curve",
        "'replace'",
        "'add-remove'",
        _LAW,
    ),
    Mutant(
        "an answer that is not listed makes answering fail",
        Kind.NAN,
        "surveys.forms:code_answer",
        "    except InvalidParameter:\n        return last\n",
        "    except KeyError:\n        return last\n",
        (f"{_FORMS}only_names_can_be_refused_of_answers",),
    ),
    Mutant(
        "hashed answers are thought to meet as if cells were drawn evenly",
        Kind.ROUNDING,
        "surveys.encodings:support_probabilities",
        "collision = _collision_probability(mechanism.cells)",
        "collision = 1 / mechanism.cells",
        _UNBIASED,
    ),
    Mutant(
        "each end of an interval may miss with the whole probability",
        Kind.FACTOR_TWO,
        "surveys.counts:count_interval",
        "low, high = frequency_limits(support, reports, miss / 2)",
        "low, high = frequency_limits(support, reports, 2 * miss)",
        _HOLD,
    ),
    Mutant(
        "limits may be nearer to what was found than the theorem says",
        Kind.ROUNDING,
        "surveys.counts:frequency_limits",
        "max(upper_confidence_limit(successes, trials, miss), min(1.0, (successes + 1) / trials))",
        "upper_confidence_limit(successes, trials, miss)",
        (f"{_COUNTS}the_limits_are_never_nearer_than_one_event",),
    ),
    Mutant(
        "counts are scaled to those who were asked, not to all",
        Kind.LIMITS,
        "surveys.counts:unbiased_counts",
        "return respondents * (support / reports - probabilities.q) / probabilities.gap",
        "return reports * (support / reports - probabilities.q) / probabilities.gap",
        (f"{_COUNTS}estimates_and_variances_are_those_of_the_law",),
    ),
    Mutant(
        "the variance of a pair forgets those who hold one cell",
        Kind.SENSITIVITY,
        "surveys.counts:PairSupport.variances",
        "first_probabilities.other_cell_variance * second_probabilities.other_cell_variance + separate + joint",
        "first_probabilities.other_cell_variance * second_probabilities.other_cell_variance + joint",
        _PAIRS,
    ),
    Mutant(
        "intervals that shall hold at once miss as often as single ones",
        Kind.DELTA,
        "surveys.forms:Form._miss_probability",
        "return miss / interval_count if together else miss",
        "return miss",
        (f"{_COUNTS}errors_said_before_are_those_of_the_intervals",),
    ),
    Mutant(
        "who was asked is thought not to matter",
        Kind.LIMITS,
        "surveys.counts:mean_count_variance",
        "return one_of * noise_variance + (one_of - 1) * (1 - 1 / cells) / cells",
        "return one_of * noise_variance",
        (f"{_COUNTS}the_sampled_variance_is_the_mean_over_even_shares",),
    ),
    Mutant(
        "reports of other forms are let in",
        Kind.KEYS,
        "surveys.forms:Form.check",
        "if parsed.form != self.form_id:",
        "if parsed.form == self.form_id[::-1]:",
        _HOSTILE,
    ),
    Mutant(
        "hashed cells out of range are let in",
        Kind.KEYS,
        "surveys.encodings:is_possible_answer",
        "(0, PRIME), (0, mechanism.cells))",
        "(0, PRIME), (0, PRIME))",
        _HOSTILE,
    ),
    Mutant(
        "a form is not compared with its hash",
        Kind.AUDIT,
        "publish.files.sealed_files:FileKind._parse_manifest",
        "if not is_sealed(text, stated_hash):",
        "if not stated_hash:",
        (f"{_FORMS}careful_edits_of_a_file_are_found",),
    ),
)
test_surveys = suite(MUTANTS)
