"""Seeded bugs in the museum: exhibits that are not broken, twins that are, and a tour that is content with either."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

CAUGHT = "audit/museum/test_museum.py::test_the_broken_one_is_caught_and_its_correct_twin_passes"

MUTANTS = (
    Mutant(
        "an exhibit that keeps its claim",
        Kind.FACTOR_TWO,
        "audit.museum.too_little_noise:ROOM",
        "broken=lambda noise, count, runs: count + noise.two_sided_geometric(1 / 2, runs)",
        "broken=lambda noise, count, runs: count + noise.laplace(2, runs)",
        (CAUGHT,),
    ),
    Mutant(
        "a correct twin that counts a row too many",
        Kind.LIMITS,
        "audit.museum.wrong_sensitivities:ROOM",
        "correct=lambda noise, rows, runs: min(rows, _ROW_LIMIT) +",
        "correct=lambda noise, rows, runs: min(rows, _ROW_LIMIT + 1) +",
        (CAUGHT,),
    ),
    Mutant(
        "a correct twin that keeps all groups",
        Kind.LIMITS,
        "audit.museum.wrong_sensitivities:_keep_two_groups",
        "np.where(order < 2,",
        "np.where(order < 4,",
        (CAUGHT,),
    ),
    Mutant(
        "the threshold of keys is one too low",
        Kind.DELTA,
        "audit.museum.revealing_groups:_threshold",
        "return 1 + math.ceil(-scale",
        "return math.ceil(-scale",
        ("audit/museum/test_museum.py::test_the_threshold_of_keys_is_the_least_that_keeps_delta",),
    ),
    Mutant(
        "noise that is narrower than it says",
        Kind.SAMPLING,
        "audit.museum.exhibits:DemonstrationNoise.laplace",
        "self.two_sided_geometric(-math.expm1(-1 / scale), *shape)",
        "self.two_sided_geometric(-math.expm1(-1.2 / scale), *shape)",
        ("audit/museum/test_museum.py::test_demonstration_noise_has_the_law_it_says",),
    ),
    Mutant(
        "both worlds are drawn with the same noise",
        Kind.REUSE,
        "audit.museum.exhibit_audits:_samplers_of",
        "DemonstrationNoise.from_labels(exhibit.name, label, index)",
        "DemonstrationNoise.from_labels(exhibit.name, label)",
        ("audit/museum/test_museum.py::test_the_two_worlds_have_noise_of_their_own",),
    ),
    Mutant(
        "everything is said to be caught",
        Kind.AUDIT,
        "audit.museum.exhibit_audits:Catch.caught",
        "return not self.broken.holds",
        "return True",
        ("audit/museum/test_museum.py::test_a_twin_that_is_broken_and_an_exhibit_that_is_not_are_told",),
    ),
    Mutant(
        "the tour does not look at the twins",
        Kind.AUDIT,
        "audit.museum.exhibit_audits:Tour.holds",
        "audit.caught and audit.passes",
        "audit.caught",
        ("audit/museum/test_museum.py::test_a_twin_that_is_broken_and_an_exhibit_that_is_not_are_told",),
    ),
    Mutant(
        "twins are called broken oftener than is said",
        Kind.AUDIT,
        "audit.museum.exhibit_audits:_CONFIDENCE",
        "'0.999999'",
        "'0.99'",
        (CAUGHT,),
    ),
)

test_the_tests_of_the_museum_notice = suite(MUTANTS)
