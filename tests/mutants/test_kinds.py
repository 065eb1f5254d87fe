"""Seeded bugs of kinds of release: what a skin offers, and what is read for it."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_STRUCTS = ("server/requests/test_kind_structs.py",)

MUTANTS = (
    Mutant(
        "a kind that a skin refuses is offered there",
        Kind.CONSENT,
        "curator.release_kinds:ReleaseKind.require_offered_in",
        "if refusal is not None:",
        "if False:",
        ("curator/test_release_kinds.py::test_a_skin_that_does_not_offer_a_kind_says_what_to_do",),
    ),
    Mutant(
        "texts and lists that are sent have no end",
        Kind.HOSTILE,
        "server.requests.specs:_with_size_bounds",
        "max_length=size.most",
        "max_length=None",
        _STRUCTS,
    ),
    Mutant(
        "whole numbers that are sent have no end",
        Kind.HOSTILE,
        "server.requests.specs:_with_size_bounds",
        "le=size.most",
        "le=None",
        _STRUCTS,
    ),
    Mutant(
        "a name that is not known is passed over",
        Kind.HOSTILE,
        "server.requests.specs:_OPTIONS",
        "'forbid_unknown_fields': True",
        "'forbid_unknown_fields': False",
        _STRUCTS,
    ),
    Mutant(
        "what Python alone takes is read from others",
        Kind.CONSENT,
        "curator.release_kinds:spec_fields",
        "if not spec_field.metadata.get('local')",
        "if True",
        _STRUCTS,
    ),
    Mutant(
        "running totals of thousands of periods are explained for nothing",
        Kind.LIMITS,
        "server.releases.running_releases:proposal_cost_in_questions",
        "len(proposal.periods) ** 2",
        "len(proposal.periods)",
        ("server/releases/test_static_costs.py",),
    ),
    Mutant(
        "a text of one row is printed",
        Kind.HOSTILE,
        "curator.cell_proposals:frequent_texts_among_numbers",
        "count >= _MIN_CELLS",
        "count >= 1",
        ("cli/commands/test_messy_files.py::test_texts_that_keep_numbers_from_being_a_number_are_named",),
    ),
    Mutant(
        "power over hundreds of groups is forecast for nothing",
        Kind.LIMITS,
        "server.releases.running_releases:proposal_cost_in_questions",
        "act == 'power'",
        "False",
        ("server/releases/test_static_costs.py",),
    ),
    Mutant(
        "a test from afar is of another price",
        Kind.CONSENT,
        "client.remote_proposals:RemoteQuestion._test",
        "if name in _TESTED_TERMS",
        "if name not in _TESTED_TERMS",
        ("client/test_remote_tests.py",),
    ),
    Mutant(
        "a model of a view from afar is one of its whole table",
        Kind.CONSENT,
        "client.remote_proposals:RemoteTable._propose_kind",
        "self.view if self.view['steps'] or 'alias' in self.view else self.view['table']",
        "self.view['table']",
        ("client/test_remote_tests.py",),
    ),
)

test_the_tests_of_kinds_notice = suite(MUTANTS)
