"""Seeded bugs in requests: who is charged twice, what is given for another, and what is kept between calls."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_ASKING = "ledger/accounts/test_pending_queries.py"
_REQUESTS = "curator/test_requests.py"
_SERVER = "server/releases/test_proposal_cache.py"

MUTANTS = (
    Mutant(
        "a fresh request finds nothing, not even itself",
        Kind.CHARGE_ORDER,
        "ledger.accounts.pending_queries:PendingQuery._find_answered_or_pending",
        "return answer or pending",
        "return None",
        (f"{_ASKING}::test_equal_fresh_requests_at_once_cost_once",),
    ),
    Mutant(
        "a series under a request is not looked for before it is opened",
        Kind.CHARGE_ORDER,
        "release.requests:RequestedSeries.open",
        "return here.account.ask_tab(hold, entry, whole=whole, seconds=limit, waiting=waiting, former_plan=former)",
        "return here.account.open_tab(hold, whole=whole, analyst=here.analyst, question=self.question)",
        (f"{_REQUESTS}::test_equal_requests_that_arrive_together_are_charged_once[mwem]",),
    ),
    Mutant(
        "what another request bought is given",
        Kind.REUSE,
        "release.requests:RequestedSeries.find_stored",
        "analyst=self.context.analyst, question=self.question, plan=self.plan",
        "analyst=self.context.analyst",
        (f"{_REQUESTS}::test_a_request_is_charged_once_and_given_again[mwem]",),
    ),
    Mutant(
        "stored ranges are given for any confidence",
        Kind.REUSE,
        "release.requests:require_same_ranges",
        "exact(receipt.confidence, 'confidence') != level",
        "False",
        (f"{_REQUESTS}::test_stored_ranges_are_not_given_for_another_confidence",),
    ),
    Mutant(
        "ranges that hold each are given as joint ones",
        Kind.REUSE,
        "release.requests:require_same_ranges",
        "stored_joint is not joint",
        "False",
        (f"{_REQUESTS}::test_stored_ranges_are_not_given_for_another_confidence",),
    ),
    Mutant(
        "a proposal outlives its policy",
        Kind.REUSE,
        "server.releases.running_releases:ProposalCache.get_or_make",
        "if cached is not None and cached[0] is policy:",
        "if cached is not None:",
        (f"{_SERVER}::test_a_proposal_is_made_once_for_each_who_sends_it",),
    ),
    Mutant(
        "proposals of others are given",
        Kind.REUSE,
        "server.gateway:Gateway._proposal",
        "cache_key = ProposalKey(caller.user, kind, canonical_json(spec), spends, until)",
        'cache_key = ProposalKey("", kind, canonical_json(spec), spends, until)',
        (f"{_SERVER}::test_nobody_is_given_the_proposal_of_somebody_else",),
    ),
)


test_the_tests_of_requests_notice = suite(MUTANTS)
