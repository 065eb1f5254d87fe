"""Seeded bugs in the evidence: audits that would refute what is sound."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SHARED = ("audit/test_false_alarms.py::test_the_chances_of_all_limits_together_are_what_the_confidence_leaves",)
_APART = ("audit/test_false_alarms.py",)

MUTANTS = (
    Mutant(
        "the chance of a mistake is not shared over events",
        Kind.AUDIT,
        "audit/verdicts.py",
        "(1 - confidence) / events / 2",
        "(1 - confidence) / 2",
        _SHARED,
    ),
    Mutant(
        "the chance of a mistake is not shared over the two limits",
        Kind.AUDIT,
        "audit/verdicts.py",
        "(1 - confidence) / events / 2",
        "(1 - confidence) / events",
        _SHARED,
    ),
    Mutant(
        "events are measured on the samples they were picked on",
        Kind.AUDIT,
        "audit/falsifying.py",
        "first, second = samples.measuring",
        "first, second = samples.picking",
        _APART,
    ),
    Mutant(
        "samples that a classifier learnt from are measured, too",
        Kind.AUDIT,
        "audit/falsifying.py",
        "(first[picked:], second[picked:])",
        "(first[picked - trained:], second[picked - trained:])",
        _APART,
    ),
    Mutant(
        "both directions of an event are measured as one",
        Kind.AUDIT,
        "audit/falsifying.py",
        "return math.log(p / q) if p > 0 and q > 0 else -math.inf",
        "return abs(math.log(p / q)) if p > 0 and q > 0 else -math.inf",
        ("audit/test_falsifying.py::test_a_mechanism_that_leaks_nothing",),
    ),
    Mutant(
        "δ is not taken off",
        Kind.AUDIT,
        "audit/falsifying.py",
        "int(p_counts.sum()), miss) - delta",
        "int(p_counts.sum()), miss)",
        ("audit/test_falsifying.py::test_delta_is_taken_off",),
    ),
    Mutant(
        "an audit with too few samples to refute anything says that a claim holds",
        Kind.AUDIT,
        "audit/falsifying.py",
        "    if many < least:",
        "    if many < 100:",
        ("audit/test_falsifying.py::test_too_few_samples_to_refute_anything_are_refused",),
    ),
)

test_the_tests_of_audits_notice = suite(MUTANTS)
