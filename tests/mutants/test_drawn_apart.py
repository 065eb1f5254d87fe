"""Seeded bugs by which numbers share their noise: of groups, of blocks, of what a session buys, of chosen values."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "safety/test_drawn_apart.py"
_KINDS = f"{_TESTS}::test_every_number_is_drawn_for_itself"

MUTANTS = (
    Mutant(
        "the numbers of different values of all groups share their noise",
        Kind.REUSE,
        "release/parts/value_parts.py",
        "drawn: Integers = measurement.draw(measurement.reading.of(exact))",
        "own = measurement.reading.of(exact)\n        drawn: Integers = own + measurement.draw(0 * own[:1])",
        (f"{_KINDS}[different_values]",),
    ),
    Mutant(
        "blocks and marginals of one shape share their noise",
        Kind.REUSE,
        "publish/marginals/measuring.py",
        "return self._published(\n"
        "            self.plan, tuple(packed(each.draw(each.reading.of(exact))) for each in self.batch.measurements)\n"
        "        )",
        "drawn: dict[object, Any] = {}\n"
        "        own = [(each, each.reading.of(exact)) for each in self.batch.measurements]\n"
        "        noise = [drawn.setdefault(cells.shape, each.draw(0 * cells)) for each, cells in own]\n"
        "        cells = (packed(cells + one) for (_, cells), one in zip(own, noise, strict=True))\n"
        "        return self._published(self.plan, tuple(cells))",
        (f"{_KINDS}[synopses]", f"{_KINDS}[pure_synopses]"),
    ),
    Mutant(
        "the counts that a session buys share their noise",
        Kind.REUSE,
        "publish/online.py",
        "found = np.asarray(self._batch.noise_for(reach).apply(own), np.int64)",
        "found = own + np.asarray(self._batch.noise_for(reach).apply(0 * own.ravel()[:1]), np.int64)[0]",
        (f"{_TESTS}::test_every_number_that_a_session_buys_is_drawn_for_itself",),
    ),
    Mutant(
        "all groups take the same place of their runs",
        Kind.REUSE,
        "mechanisms/rank_choices.py",
        "bits.each_below(self.places[index])",
        "bits.each_below(self.places[index][:1])[0] % self.places[index]",
        (f"{_KINDS}[quantiles]",),
    ),
)

test_the_tests_of_numbers_drawn_apart_notice = suite(MUTANTS)
