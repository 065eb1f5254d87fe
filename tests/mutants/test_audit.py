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
    Mutant(
        "no invented unit has one row more than a limit",
        Kind.LIMITS,
        "audit/neighbouring_tables.py",
        'yield _Shape("one row more than the limit", rows + 1)',
        'yield _Shape("one row more than the limit", rows)',
        ("audit/test_neighbouring_tables.py::test_units_are_at_every_limit_and_one_below_and_one_beyond",),
    ),
    Mutant(
        "replaced units are compared with nobody alone",
        Kind.NEIGHBOURS,
        "audit/neighbouring_tables.py",
        "if self.policy.neighbours is Neighbours.REPLACE:",
        "if self.policy.neighbours is Neighbours.ADD_REMOVE:",
        ("audit/test_neighbouring_tables.py::test_pairs_are_what_the_policy_calls_neighbours",),
    ),
    Mutant(
        "a unit within a period lies in several",
        Kind.NEIGHBOURS,
        "audit/neighbouring_tables.py",
        "each.plain(0 if name == period else number, ends)",
        "each.plain(number, ends)",
        ("audit/test_neighbouring_tables.py::test_a_unit_within_a_period_stays_in_it",),
    ),
    Mutant(
        "a change beyond the claim counts as the claim",
        Kind.AUDIT,
        "audit/replayed_totals.py",
        'return max(1.0 + 1e-9, float(seen / claimed)) if claimed else float("inf")',
        "return 1.0",
        ("audit/test_asked_worlds.py::test_exact_changes_keep_the_claim_and_half_of_it_is_exceeded",),
    ),
    Mutant(
        "charges are not compared",
        Kind.AUDIT,
        "audit/compared_outcomes.py",
        'seen["charge"] = repr({name: before[name] - after[name] for name in before if name in after})',
        'seen["charge"] = repr([name for name in before if name in after])',
        ("audit/test_curator_audits.py::test_what_is_seen_holds_the_charge_and_the_groups",),
    ),
    Mutant(
        "planted faults that are missed are no doubt",
        Kind.AUDIT,
        "audit/curator_findings.py",
        "return tuple(each for each in self.faults if not each.caught)",
        "return ()",
        ("audit/test_curator_audits.py::test_an_audit_that_misses_a_fault_says_that_it_has_no_power",),
    ),
    Mutant(
        "a question is falsified at half the price that is claimed",
        Kind.FACTOR_TWO,
        "audit/asked_worlds.py",
        'price: dict[str, Any] = {"epsilon": claim.epsilon}',
        'price: dict[str, Any] = {"epsilon": claim.epsilon / 2}',
        ("audit/test_asked_worlds.py::test_the_price_is_the_claim",),
    ),
)

test_the_tests_of_audits_notice = suite(MUTANTS)
