"""Seeded bugs in what is printed of published objects: conservative formulas, which tests of coverage hardly see."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_PUBLISH = "vectors/test_publish_vectors.py::test_vectors"
_EXPORTED = "safety/test_exported_secrets.py"


def _of(formula: str) -> tuple[str]:
    return (f"{_PUBLISH}[{formula}]",)


_RANGE = _of("publish.marginals.group_totals.BoundedTotals.ends")
_BOUNDED = _of("publish.marginals.group_totals.bound_totals")

MUTANTS = (
    Mutant(
        "each of several bounds has the whole chance to miss",
        Kind.RANGES,
        "publish.marginals.group_totals:BoundedTotals.ends",
        "lower_widths = [_summed_half_width(noises, beta * self.share, self.bound_count, cells)",
        "lower_widths = [_summed_half_width(noises, beta * self.share, 1, cells)",
        _RANGE,
    ),
    Mutant(
        "each upper bound has the whole chance to miss",
        Kind.RANGES,
        "publish.marginals.group_totals:BoundedTotals.ends",
        "upper_widths = [_summed_half_width(noises, beta * self.share, self.bound_count, cells)",
        "upper_widths = [_summed_half_width(noises, beta * self.share, 1, cells)",
        _RANGE,
    ),
    Mutant(
        "noise decides how many bounds share the chance to miss",
        Kind.RANGES,
        "publish.marginals.group_totals:bound_totals",
        "nonnegative, max_bound_count(len(axes)), 1 - _MEASURED)",
        "nonnegative, len(lower) + len(upper), 1 - _MEASURED)",
        _BOUNDED,
    ),
    Mutant(
        "a bound of three numbers has the noise of one",
        Kind.RANGES,
        "publish.marginals.group_totals:_lower_bounds_from_two_marginals",
        "bounds.append((first + second - third, (a, b, c)))",
        "bounds.append((first + second - third, (a,)))",
        _of("publish.marginals.group_totals._lower_bounds_from_two_marginals"),
    ),
    Mutant(
        "a range is cut to nothing where noise is below zero",
        Kind.RANGES,
        "publish.marginals.group_totals:BoundedTotals.ends",
        "upper_ends = [self._clip_at_zero(value) + width for",
        "upper_ends = [self._clip_at_zero(value + width) for",
        _RANGE,
    ),
    Mutant(
        "bounds that cross leave a narrow range",
        Kind.RANGES,
        "publish.marginals.group_totals:BoundedTotals.ends",
        "(np.minimum(low, high - least_width), np.maximum(high, low + least_width))",
        "(np.minimum(low, high), np.maximum(low, high))",
        _RANGE,
    ),
    Mutant(
        "a consistent count below zero is shown as certain",
        Kind.RANGES,
        "publish.synopsis:Synopsis._marginal_answer",
        "(np.maximum(count, 0.0) + width).tolist()",
        "np.maximum(count + width, 0.0).tolist()",
        _of("publish.synopsis.Synopsis._marginal_answer"),
    ),
    Mutant(
        "a precision is that of the last measurement, which noise decided",
        Kind.RANGES,
        "publish.synthetic:Synthetic._first_measurement_precisions",
        "first_precision = 1 / measured[min(1, len(measured) - 1)].variance",
        "first_precision = 1 / measured[-1].variance",
        _of("publish.synthetic.Synthetic._first_measurement_precisions"),
    ),
    Mutant(
        "a precision of added synopses is that of the later one",
        Kind.RANGES,
        "publish.synopsis:Synopsis._first_release_precisions",
        "first_variances = self.earlier[0].plan.block_variances",
        "first_variances = self.plan.block_variances",
        _of("publish.synopsis.Synopsis._first_release_precisions"),
    ),
    Mutant(
        "a gate that speaks for several measures misses twice as often",
        Kind.RANGES,
        "curator.proposals.online:OnlineSession._resolve_from_hypothesis",
        "self._batch.rounds, miss_probability / 2)",
        "self._batch.rounds, miss_probability)",
        (
            "vectors/test_curator_vectors.py::test_vectors[curator.proposals.online.OnlineSession._resolve_from_hypothesis.interval]",
        ),
    ),
    Mutant(
        "the number of rows in NIST's score is taken for known",
        Kind.RANGES,
        "publish.scoring:CandidateScore._width_with_noisy_rows",
        "rows_error = int(self.rows_noise.error(confidence))",
        "rows_error = 0",
        _of("publish.scoring.CandidateScore.nist_interval"),
    ),
    Mutant(
        "both ranges of NIST's score have the whole chance to miss",
        Kind.RANGES,
        "publish.scoring:CandidateScore.nist_interval",
        "self._width_with_noisy_rows(1 - (1 - confidence_level) / 2)",
        "self._width_with_noisy_rows(confidence_level)",
        _of("publish.scoring.CandidateScore.nist_interval"),
    ),
    Mutant(
        "a mean leaves out how far its values are rounded",
        Kind.RANGES,
        "plan.aggregates.measures:MeanEstimate.estimate",
        "rounding_error = float(self.rounding)",
        "rounding_error = 0.0",
        ("release/test_rounded_values.py",),
    ),
    Mutant(
        "a survey's range is cut to nothing",
        Kind.RANGES,
        "surveys.counts:count_interval",
        "min(float(respondents), max(top, half_length))",
        "min(float(respondents), max(top, 0.0))",
        ("vectors/test_release_vectors.py::test_vectors[surveys.counts.count_interval]",),
    ),
    Mutant(
        "a number below zero is shown as certain to be zero",
        Kind.RANGES,
        "release.answers.answer:_clip_at_zero",
        "max(0.0, high - min(0, value or 0))",
        "max(0.0, high)",
        ("vectors/test_release_vectors.py::test_vectors[release.answers.answer._clip_at_zero]",),
    ),
    Mutant(
        "a revenue below zero is certain",
        Kind.RANGES,
        "curator.proposals.stored_answers:AuctionOutcome.revenue_range",
        "float(self.price * (max(0, self.buyers) + half_width))",
        "float(self.price * max(0, self.buyers + half_width))",
        (
            "vectors/test_curator_vectors.py::test_vectors[curator.proposals.stored_answers.AuctionOutcome.revenue_range]",
        ),
    ),
    Mutant(
        "a synopsis is exported with the salt of its line",
        Kind.CONSENT,
        "publish.synopsis:Synopsis.to_json",
        "return codec.dumps(_without_salt(self))",
        "return codec.dumps(self)",
        (f"{_EXPORTED}::test_what_is_exported_holds_no_secret[marginals]",),
    ),
    Mutant(
        "a sum of synopses is exported with the salts of the earlier ones",
        Kind.CONSENT,
        "publish.synopsis:_without_salt",
        "return Synopsis(published, synopsis.receipt, tuple(map(_without_salt, synopsis.earlier)))",
        "return Synopsis(published, synopsis.receipt, synopsis.earlier)",
        (f"{_EXPORTED}::test_a_sum_of_synopses_holds_no_secret",),
    ),
    Mutant(
        "a score is shown with the salt of its line",
        Kind.CONSENT,
        "curator.proposals.scores:ScoreProposal._score_with_receipt",
        "return replace(candidate_score, purchase=candidate_score.purchase.without_salt, receipt=score_receipt)",
        "return replace(candidate_score, receipt=score_receipt)",
        (f"{_EXPORTED}::test_what_is_exported_holds_no_secret[score]",),
    ),
)

test_exact_vectors_notice = suite(MUTANTS)
