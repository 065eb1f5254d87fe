"""Seeded bugs in what makes a count quick: what is kept between calls, read once, or collected when it is needed."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SHOWN = "curator/test_curators.py::test_a_question_shows_each_line_s_own_numbers_however_often_it_is_asked"
_CLASSES = "test_quick_dataclass.py"
_FORMS = "release/noisy_rows/test_form_widths.py"
_BUILD = "curator.proposals.questions:Question.build_answer"

MUTANTS = (
    Mutant(
        "a fresh answer shows the numbers of the line before",
        Kind.REUSE,
        _BUILD,
        "line = (result.number, result.hash,",
        "line = (1, 'any',",
        (_SHOWN,),
    ),
    Mutant(
        "a stored answer keeps the ± of another confidence",
        Kind.REUSE,
        _BUILD,
        "exact(confidence, 'confidence'), joint",
        "exact(1), joint",
        (_SHOWN,),
    ),
    Mutant(
        "ranges that hold jointly are shown as those that hold one by one",
        Kind.REUSE,
        _BUILD,
        "exact(confidence, 'confidence'), joint",
        "exact(confidence, 'confidence'), False",
        (_SHOWN,),
    ),
    Mutant(
        "a dry run's extreme totals are kept as what is shown",
        Kind.REUSE,
        _BUILD,
        "parts = self._last_formatted_answer.get(line) if result.hash else None",
        "parts = next(iter(self._last_formatted_answer.values()), None)",
        (_SHOWN,),
    ),
    Mutant(
        "a stored answer tells what was left when it was bought",
        Kind.CONSENT,
        "release.releasing:find_stored",
        "_decode_stored_answer(stored_answer), statement=lookup.statement",
        "_decode_stored_answer(stored_answer), "
        "statement=account.__dict__.setdefault('_first_statement', lookup.statement)",
        ("curator/test_curators.py::test_what_is_left_is_read_anew_for_a_stored_answer",),
    ),
    Mutant(
        "the strategy of a release, or its cost, is that of the price before",
        Kind.REUSE,
        "caching:once_per_last_argument",
        "if last is None or last[0] is not argument:",
        "if last is None:",
        ("test_caching.py::test_a_result_is_kept_for_the_last_object_alone_even_beside_an_equal_one",),
    ),
    Mutant(
        "a column over two blocks has the widths of the first",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:IndependentNoises.widths",
        "if rows == 1 or block == self._block_of(int(form.noises.max())):",
        "if rows == 1 or block <= self._block_of(int(form.noises.max())):",
        (f"{_FORMS}::test_a_column_of_one_noise_each_has_the_widths_of_its_rows",),
    ),
    Mutant(
        "the width of another number of noises is kept",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:IndependentNoises._cached_width",
        "width = self._cached_widths.get(law)",
        "width = next(iter(self._cached_widths.values()), None)",
        (f"{_FORMS}::test_every_row_has_the_width_that_it_has_alone",),
    ),
    Mutant(
        "all lines of one price share a salt, so that guesses of an answer can be tested against its hash",
        Kind.REUSE,
        "release.payers:with_version_and_salt",
        "salt=f'{bits.random_bits(128):032x}'",
        "salt=terms.__dict__.setdefault('_salt', f'{bits.random_bits(128):032x}')",
        ("curator/test_curators.py::test_every_release_at_one_price_has_a_salt_of_its_own",),
    ),
    Mutant(
        "a proposal shares bits with the one before it",
        Kind.REUSE,
        "mechanisms.gaussian:GaussianSampler.add_noise",
        "words >>= _PROPOSAL_BITS",
        "words >>= _WIDTH",
        ("mechanisms/test_laws.py",),
    ),
    Mutant(
        "a forked process gives out the bytes of its parent",
        Kind.REUSE,
        "mechanisms.bits:RandomByteStream.take",
        "if self._process == os.getpid():",
        "if self._process:",
        ("mechanisms/test_bits.py",),
    ),
    Mutant(
        "minus zero is as likely as the other numbers",
        Kind.FACTOR_TWO,
        "mechanisms.laplace:LaplaceSampler.parts_of_word",
        "if high or low or (not minus) else None",
        "if True else None",
        ("mechanisms/test_laws.py",),
    ),
    Mutant(
        "the order of a budget is searched until one end rests",
        Kind.ROUNDING,
        "privacy.theorems:_best_order",
        "if narrowed == (low, high):",
        "if narrowed[0] == low:",
        ("privacy/test_theorems.py",),
    ),
    Mutant(
        "an end that is excluded is allowed",
        Kind.ROUNDING,
        "privacy.numbers:Range.allows",
        "self.low_open and (not above)",
        "self.low_open and above < 0",
        ("privacy/test_numbers.py",),
    ),
    Mutant(
        "a network file system is taken for the one it is mounted on",
        Kind.CHARGE_ORDER,
        "ledger.local_files:filesystem_type",
        "len(point) >= longest and inside.startswith",
        "longest < 0 and inside.startswith",
        ("ledger/test_local_files.py",),
    ),
    Mutant(
        "standings are read back only where a curator was imported",
        Kind.HOSTILE,
        ":_REGISTERING",
        "'curator.standings',",
        "",
        ("test_package.py::test_stored_values_are_read_back_by_whoever_imports_the_package_alone",),
    ),
    Mutant(
        "a field's specification is its default until the class is used",
        Kind.HOSTILE,
        "quick_dataclass:_PostponedFields.__init__",
        "setattr(cls, name, specified.default)",
        "setattr(cls, name, specified)",
        (_CLASSES,),
    ),
    Mutant(
        "the fields of a class are collected before those of its bases",
        Kind.HOSTILE,
        "quick_dataclass:_PostponedFields.collect",
        "getattr(base, '__dataclass_fields__', None)",
        "vars(base)",
        (_CLASSES,),
    ),
    Mutant(
        "the first calls of a class take arguments that do not fit",
        Kind.HOSTILE,
        "quick_dataclass:_LazyInit._assign_fields",
        "given or not fits",
        "not fits",
        (_CLASSES,),
    ),
    Mutant(
        "totals of one mechanism share a half-width, whatever their units",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:IndependentNoises._first_block_of_equal_noise",
        "first_index.setdefault(noise, len(first_index))",
        "first_index.setdefault(noise and noise.mechanism, len(first_index))",
        (_FORMS,),
    ),
    Mutant(
        "Gaussian thresholds are ruled out as if units were replaced",
        Kind.NEIGHBOURS,
        "mechanisms.key_thresholds:is_gaussian_surely_no_better",
        "_count_sensitivity(groups, laplace_threshold.neighbours)",
        "_count_sensitivity(groups, Neighbours.REPLACE)",
        ("release/test_pricing.py::test_the_threshold_that_shows_the_smallest_groups_is_chosen",),
    ),
)

test_the_tests_notice_what_a_quick_path_must_not_do = suite(MUTANTS)
