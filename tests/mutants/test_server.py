"""Seeded bugs in the server: who pays how often, when answers are there, what is refused, and what is told to whom."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TIME = "server/test_time_of_neighbours.py"
_CLOCK = "server/test_answer_clock.py"
_CLIENTS = "server/test_many_clients.py"
_HOSTILE = "server/test_hostile_requests.py"
_PEOPLE = "server/test_people_file.py"
_SERVING = "server/test_serving.py"

MUTANTS = (
    Mutant(
        "an answer is there when its rows are read",
        Kind.CONSENT,
        "server/answer_clock.py",
        "            self.sleep(left)\n",
        "            break\n",
        (_TIME,),
    ),
    Mutant(
        "only answers wait for the clock, and failures do not",
        Kind.CONSENT,
        "server/answer_clock.py",
        "elif phase in _END and",
        'elif phase == "writing down" and',
        (_CLOCK,),
    ),
    Mutant(
        "an overrun is seen when it ends",
        Kind.CONSENT,
        "server/answer_clock.py",
        "while (left := started + first * 2.0**late - self.now()) > 0:",
        "while (left := started + first - self.now()) > 0:",
        (_CLOCK,),
    ),
    Mutant(
        "a request that is sent twice at once is bought twice",
        Kind.CHARGE_ORDER,
        "server/flights.py",
        "if known is not None and known.phase is not Phase.DONE:",
        "if known is not None and known.phase is Phase.DONE:",
        (f"{_CLIENTS}::test_who_hangs_up_at_any_phase_and_asks_again_pays_once", "server/test_counter.py"),
    ),
    Mutant(
        "a request that was answered is bought again",
        Kind.CHARGE_ORDER,
        "server/counter.py",
        "        answer = self._answered(request, asked)\n        return None if answer is None else",
        "        answer = None\n        return None if answer is None else",
        (_CLIENTS, "server/test_counter.py"),
    ),
    Mutant(
        "another release under the same key gets the first one's answer",
        Kind.REUSE,
        "server/running_releases.py",
        "        if (self.kind, self.spec, self.price) != (asked.kind, asked.spec, asked.price):",
        "        if self.kind != asked.kind:",
        (f"{_HOSTILE}::test_a_request_that_is_replayed_buys_nothing_more",),
    ),
    Mutant(
        "what was queued before a policy is paused is charged after",
        Kind.CHARGE_ORDER,
        "server/charge_permits.py",
        "        self.people.require_open(self.policy)\n",
        "",
        ("server/test_counter.py::test_a_charge_is_permitted_in_the_last_step_before_it",),
    ),
    Mutant(
        "what was queued before its policy is written anew is asked as it was written",
        Kind.CHARGE_ORDER,
        "server/counter.py",
        "if written_since else proposal",
        "if False else proposal",
        ("server/test_counter.py::test_what_waits_while_its_policy_is_written_anew_is_asked_as_it_is_written_now",),
    ),
    Mutant(
        "what was queued before a user is disabled is charged after",
        Kind.CHARGE_ORDER,
        "server/people_file.py",
        "            if _known_user(rows, user).disabled or (shown",
        "            if (shown",
        ("server/test_counter.py::test_what_was_queued_before_an_owner_shuts_it_out_is_not_charged_after",),
    ),
    Mutant(
        "what a killed process reserved of a token is given back",
        Kind.LIMITS,
        "server/token_limits.py",
        "            _settle(rows, number, charged=True)",
        "            _settle(rows, number, charged=False)",
        ("server/test_token_limits.py",),
    ),
    Mutant(
        "releases of a killed process are never forgotten",
        Kind.LIMITS,
        "server/running_releases.py",
        "        if processes.alive(process) is False:\n            rows.execute(",
        "        if processes.alive(process) is None:\n            rows.execute(",
        ("server/test_running_releases.py",),
    ),
    Mutant(
        "a compressed body is read",
        Kind.CONSENT,
        "server/bounded_bodies.py",
        'if any(each.strip().lower() != b"identity" for each',
        'if any(each.strip().lower() == b"identity" for each',
        (_HOSTILE,),
    ),
    Mutant(
        "a body may take for ever",
        Kind.LIMITS,
        "server/bounded_bodies.py",
        "await asyncio.wait_for(self._body(scope, receive), BODY_SECONDS)",
        "await self._body(scope, receive)",
        (f"{_HOSTILE}::test_a_body_that_arrives_slowly_is_refused",),
    ),
    Mutant(
        "who does not read is waited for for ever",
        Kind.LIMITS,
        "server/connections.py",
        "        super().pause_writing()\n        self._await_reading()",
        "        super().pause_writing()",
        (f"{_HOSTILE}::test_who_does_not_read_is_not_waited_for",),
    ),
    Mutant(
        "everybody is believed about where they come from",
        Kind.CONSENT,
        "server/serving.py",
        "        proxy_headers=bool(settings.proxies),\n        forwarded_allow_ips=list(settings.proxies),",
        '        proxy_headers=True,\n        forwarded_allow_ips="*",',
        (f"{_HOSTILE}::test_nobody_is_believed_about_where_they_come_from",),
    ),
    Mutant(
        "who asks too much is not told when to come back",
        Kind.LIMITS,
        "server/problems.py",
        '    return {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}',
        "    return {}",
        (f"{_HOSTILE}::test_who_asks_too_much_is_told_when_to_come_back",),
    ),
    Mutant(
        "an analyst is told where the ledger lies",
        Kind.CONSENT,
        "server/told_errors.py",
        "    if role is Role.OWNER or not isinstance",
        "    if role in (Role.OWNER, Role.ANALYST) or not isinstance",
        ("server/test_told_errors.py",),
    ),
    Mutant(
        "how much is asked is told to everybody",
        Kind.CONSENT,
        "server/routes_health.py",
        '    await in_thread(counter_of(request).require_owner, await identified(request), "metrics")\n',
        "",
        (f"{_HOSTILE}::test_metrics_and_health_hold_no_number_of_rows",),
    ),
    Mutant(
        "a long rehearsal counts as a short one",
        Kind.LIMITS,
        "server/counter.py",
        "            self._questions.owe(",
        "            (lambda *_: None)(",
        (
            "server/test_counter.py::test_a_long_rehearsal_counts_as_what_could_be_asked_meanwhile_and_a_longer_one_is_refused",
        ),
    ),
    Mutant(
        "a fault tells its text",
        Kind.CONSENT,
        "server/problems.py",
        '    return f"{type(error).__name__}{where}"',
        '    return f"{error}{where}"',
        (f"{_HOSTILE}::test_a_fault_inside_is_told_with_one_text",),
    ),
    Mutant(
        "a secret that has no hash here is not looked up",
        Kind.CONSENT,
        "server/people_file.py",
        '        digest = _digest(secret or "")\n',
        '        if not (secret or "").startswith(PREFIX):\n            return None\n'
        '        digest = _digest(secret or "")\n',
        (f"{_PEOPLE}::test_whoever_is_not_known_takes_one_way_to_that",),
    ),
    Mutant(
        "a release has as much of the processor as who asks what is free",
        Kind.CONSENT,
        "server/turns.py",
        "os.getpriority(os.PRIO_PROCESS, os.getpid()) + _NICENESS",
        "os.getpriority(os.PRIO_PROCESS, os.getpid())",
        ("server/test_turns.py",),
    ),
    Mutant(
        "a reply leaves when it is ready",
        Kind.CONSENT,
        "server/reply_ticks.py",
        "                await ticks.next()\n",
        "                pass\n",
        ("server/test_reply_ticks.py",),
    ),
    Mutant(
        "a tick comes when somebody waits for it",
        Kind.CONSENT,
        "server/reply_ticks.py",
        "                time.sleep(TICK - time.monotonic() % TICK)\n",
        "",
        ("server/test_reply_ticks.py",),
    ),
    Mutant(
        "told to stop it takes new work",
        Kind.CHARGE_ORDER,
        "server/application.py",
        "    app.state.counter.stop_taking()\n",
        "",
        (f"{_SERVING}::test_told_to_stop_it_takes_no_new_work_and_ends_what_was_charged",),
    ),
    Mutant(
        "told to stop it does not wait for what was charged",
        Kind.CHARGE_ORDER,
        "server/application.py",
        "        await in_thread(counter.drain)\n",
        "",
        (f"{_SERVING}::test_told_to_stop_it_takes_no_new_work_and_ends_what_was_charged",),
    ),
)

test_the_tests_of_the_server_notice = suite(MUTANTS)
