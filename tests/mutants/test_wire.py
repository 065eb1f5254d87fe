"""Seeded bugs in the PostgreSQL wire: when it spends, whom it lets in, and what it tells."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_WIRE = "server/postgres"
_SESSIONS = f"{_WIRE}/test_sessions.py"
_SIGN_IN = f"{_WIRE}/test_sign_in.py"

MUTANTS = (
    Mutant(
        "describing a statement asks it",
        Kind.CONSENT,
        "server.postgres.sessions:Session._columns",
        "return await self._source.describe(statement, portal.parameters, ranges=portal.ranges)",
        "return (await self._run(portal)).columns",
        (f"{_SESSIONS}::test_describing_never_spends",),
    ),
    Mutant(
        "every Execute of a portal asks again",
        Kind.CONSENT,
        "server.postgres.sessions:Session._start",
        "if portal.remaining is not None:",
        "if portal.statement is None:",
        (f"{_SESSIONS}::test_a_portal_spends_once_however_often_it_is_executed",),
    ),
    Mutant(
        "the price of one connection is every connection's",
        Kind.CONSENT,
        "server.postgres.session_settings:SessionSettings.__init__",
        "self._values = dict(self._defaults)",
        "self._values = _DEFAULTS.update(own) or _DEFAULTS",
        (f"{_SESSIONS}::test_a_price_stays_with_its_connection_and_its_transaction",),
    ),
    Mutant(
        "a price outlives the transaction that set it and was rolled back",
        Kind.CONSENT,
        "server.postgres.session_settings:SessionSettings.roll_back",
        "self._values = self._before_transaction",
        "self._values = dict(self._values)",
        (f"{_SESSIONS}::test_a_price_stays_with_its_connection_and_its_transaction",),
    ),
    Mutant(
        "two questions of one text are both asked",
        Kind.CONSENT,
        "server.postgres.sessions:Session._require_one_question",
        "if len(asked) > 1:",
        "if len(asked) > 2:",
        (f"{_SESSIONS}::test_two_questions_in_one_text_are_refused_before_either_is_asked",),
    ),
    Mutant(
        "a connection spends beyond its cap",
        Kind.CONSENT,
        "server.people.token_limits:ConnectionLimit.reserve",
        "if self.most is None or ",
        "if self.most is not None or ",
        (f"{_SESSIONS}::test_a_connection_can_cap_what_it_spends",),
    ),
    Mutant(
        "an unknown user has another salt each time",
        Kind.CONSENT,
        "server.people.people_file:PeopleFile.scram_salt",
        "return _salt(secret[0], user)",
        "return _salt(secret[0] if self.scram_verifiers(user) else _new_secret(), user)",
        (f"{_SIGN_IN}::test_an_unknown_user_looks_like_a_known_one",),
    ),
    Mutant(
        "a notice tells when exactly its answer was drawn",
        Kind.CONSENT,
        "server.postgres.results:answer_result",
        "(answer.short_receipt(), *answer.caveat_lines())",
        "(answer.short_receipt(), answer.receipt.time)",
        (f"{_WIRE}/test_neighbours.py::test_every_message_is_the_same_to_the_byte",),
    ),
    Mutant(
        "an unforeseen failure is told in its own words",
        Kind.CONSENT,
        "server.postgres.error_reports:_fields",
        "return _report('XX000', fault.rule, fault.place, fault.fix)",
        "return _report('XX000', str(error), fault.place, fault.fix)",
        (f"{_SESSIONS}::test_an_unforeseen_failure_is_one_fixed_text",),
    ),
    Mutant(
        "a revoked token still reads the catalog",
        Kind.CONSENT,
        "server.postgres.answering:StatementSource._run_catalog",
        "self.caller()",
        "self.policy",
        (f"{_SESSIONS}::test_a_revoked_token_ends_what_it_opened",),
    ),
    Mutant(
        "bytes before the handshake are taken for the client's",
        Kind.HOSTILE,
        "server.postgres.listening:PostgresServer._answer_encryption",
        "if offers and _has_more(accepted):",
        "if request.gss and _has_more(accepted):",
        (f"{_SIGN_IN}::test_bytes_before_the_handshake_close_the_connection",),
    ),
    Mutant(
        "a cancelled question is charged when its turn comes",
        Kind.CONSENT,
        "server.releases.flights:Flights.run_flight",
        "if flight.withdrawn:",
        "if flight.refusal is not None:",
        (f"{_WIRE}/test_clients.py::test_a_cancelled_statement_is_told_and_stored_if_it_was_charged",),
    ),
    Mutant(
        "prepared statements are unbounded",
        Kind.HOSTILE,
        "server.postgres.sessions:Session._parse",
        "if len(self._prepared) >= MAX_STATEMENTS:",
        "if len(self._prepared) >= 2 ** 31:",
        (f"{_WIRE}/test_hostile_bytes.py::test_statements_and_portals_are_bounded",),
    ),
)

test_the_tests_of_the_wire_notice = suite(MUTANTS)
