"""Seeded bugs by which numbers share their noise: of groups, of blocks, of what a session buys, of chosen values."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "safety/test_drawn_apart.py"
_KINDS = f"{_TESTS}::test_every_number_is_drawn_for_itself"
_EQUAL = "safety/test_equal_scales.py"
_EQUAL_MEASURES = f"{_EQUAL}::test_measures_and_groups_of_one_scale_have_noises_of_their_own"
_EQUAL_KINDS = f"{_EQUAL}::test_numbers_of_every_kind_of_release_have_noises_of_their_own"

MUTANTS = (
    Mutant(
        "the numbers of different values of all groups share their noise",
        Kind.REUSE,
        "release.parts.other_parts:DistinctValuesPart.draw",
        "noisy_counts: Integers = measurement.draw(measurement.reading.extract(exact))",
        "own = measurement.reading.extract(exact)\n    noisy_counts: Integers = own + measurement.draw(0 * own[:1])",
        (f"{_KINDS}[different_values]",),
    ),
    Mutant(
        "blocks and marginals of one shape share their noise",
        Kind.REUSE,
        "publish.marginals.measuring:MarginalsRelease.add_noise",
        "return self._build_published(self.plan, "
        "tuple((encode_integers(measurement.draw(measurement.reading.extract(exact)))"
        " for measurement in self.batch.measurements)))",
        "drawn: dict[object, Any] = {}\n"
        "    own = [(measurement, measurement.reading.extract(exact)) for measurement in self.batch.measurements]\n"
        "    noise = [drawn.setdefault(cells.shape, measurement.draw(0 * cells)) for measurement, cells in own]\n"
        "    cells = (encode_integers(cells + one) for (_, cells), one in zip(own, noise, strict=True))\n"
        "    return self._build_published(self.plan, tuple(cells))",
        (f"{_KINDS}[synopses]", f"{_KINDS}[pure_synopses]"),
    ),
    Mutant(
        "the counts that a session buys share their noise",
        Kind.REUSE,
        "publish.online:GatedCounts._buy_answer",
        "noisy_totals = np.asarray(self._batch.noise_for(max_row_effect).apply(totals), np.int64)",
        "noisy_totals = totals + np.asarray(self._batch.noise_for(max_row_effect).apply(0 * "
        "totals.ravel()[:1]), np.int64)[0]",
        (f"{_TESTS}::test_every_number_that_a_session_buys_is_drawn_for_itself",),
    ),
    Mutant(
        "all groups take the same place of their runs",
        Kind.REUSE,
        "mechanisms.rank_choices:ValueRuns.choose_numbers",
        "bits.random_below_limits(self.multiplicities[index])",
        "bits.random_below_limits(self.multiplicities[index][:1])[0] % self.multiplicities[index]",
        (f"{_KINDS}[quantiles]",),
    ),
    Mutant(
        "measures of one mechanism and one shape share their noise",
        Kind.REUSE,
        "release.parts.shares:NoisyTotals.draw",
        "noisy_totals = [measurement.draw(measurement.reading.extract(exact)) for measurement in measurements]",
        "kept: dict[Any, Any] = {}\n"
        "    own = [(measurement, measurement.reading.extract(exact)) for measurement in measurements]\n"
        "    noisy_totals = [part + kept.setdefault((measurement.mechanism, part.shape), "
        "measurement.draw(0 * part)) for measurement, part in own]",
        (_EQUAL_MEASURES,),
    ),
    Mutant(
        "all groups of a question share their noise",
        Kind.REUSE,
        "release.measured:draw_noisy_numbers",
        "return np.hstack([np.zeros((len(groups), 0), np.int64), *part_numbers])",
        "alike = [np.repeat(each[:1], len(each), 0) for each in part_numbers]\n"
        "    return np.hstack([np.zeros((len(groups), 0), np.int64), *alike])",
        (_EQUAL_MEASURES,),
    ),
    Mutant(
        "questions of a workload share their numbers where they have as many",
        Kind.REUSE,
        "release.batch_prices:BatchRelease.draw",
        "return BatchMeasurements(tuple((kind.draw(read_shared) for kind in self.strategies)))",
        "from dataclasses import replace\n"
        "    found = [kind.draw(read_shared) for kind in self.strategies]\n"
        "    first = {len(statement.columns[0]): statement.columns for statement in reversed(found)}\n"
        "    return BatchMeasurements(tuple((replace(statement, "
        "columns=first[len(statement.columns[0])]) for statement in found)))",
        (f"{_EQUAL_KINDS}[workload]",),
    ),
    Mutant(
        "the numbers inside and outside of found bounds share their noise",
        Kind.REUSE,
        "curator.step_counts:StepSearch.draw",
        "inside, outside = self.inside_outside.draw("
        "reading.sum_inside_and_outside(reading.extract(totals), self._inside_mask(first, last)))",
        "own = reading.sum_inside_and_outside(reading.extract(totals), self._inside_mask(first, last))\n"
        "    inside, outside = own + self.inside_outside.draw(0 * own[:1])[0]",
        (f"{_EQUAL_KINDS}[bounds]",),
    ),
    Mutant(
        "all counts of one step of a model share their noise",
        Kind.REUSE,
        "publish.tab_steps:MeasureStep.draw",
        "return self.to_outcome(measurement.draw(self.view.extract(read(self.readings[0]))))",
        "own = self.view.extract(read(self.readings[0]))\n"
        "    return self.to_outcome(own + measurement.draw(0 * own.ravel()[:1])[0])",
        (f"{_EQUAL_KINDS}[multiplicative weights]", f"{_EQUAL_KINDS}[aim]"),
    ),
    Mutant(
        "two series of running totals share their noise",
        Kind.REUSE,
        "release.running_totals:RunningTotalsRelease.draw_from",
        "noisy_encoded = measurement.draw(measurement.reading.extract(totals)).astype(np.float64)",
        "own = measurement.reading.extract(totals)\n"
        "    noisy_encoded = (own + np.resize(measurement.draw(0 * own)[:len(own) // 2], "
        "own.shape)).astype(np.float64)",
        (f"{_EQUAL_KINDS}[running totals]",),
    ),
)

test_the_tests_of_numbers_drawn_apart_notice = suite(MUTANTS)
