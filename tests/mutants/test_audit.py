"""Seeded bugs in the evidence: audits that would refute what is sound."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "the chance of a mistake is not shared over events",
        Kind.AUDIT,
        "audit/falsifying.py",
        "float(1 - level) / max(1, len(candidates)) / 2",
        "float(1 - level) / 2",
        ("audit/test_false_alarms.py::test_the_chances_of_all_limits_together_are_what_the_confidence_leaves",),
    ),
    Mutant(
        "the chance of a mistake is not shared over the two limits",
        Kind.AUDIT,
        "audit/falsifying.py",
        "float(1 - level) / max(1, len(candidates)) / 2",
        "float(1 - level) / max(1, len(candidates))",
        ("audit/test_false_alarms.py::test_the_chances_of_all_limits_together_are_what_the_confidence_leaves",),
    ),
    Mutant(
        "events are measured on the samples they were picked on",
        Kind.AUDIT,
        "audit/falsifying.py",
        "(_proven(event, first[picking:], second[picking:],",
        "(_proven(event, first[:picking], second[:picking],",
        ("audit/test_false_alarms.py::test_events_are_measured_on_samples_they_were_not_picked_on",),
    ),
)

test_the_tests_of_audits_notice = suite(MUTANTS)
