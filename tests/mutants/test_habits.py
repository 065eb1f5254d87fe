"""Seeded bugs in habits of other tools: a δ that nobody accepted, facts that read rows, and a shell that holds fast."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_DELTA = "curator/test_default_delta.py"
_SHELL = "cli/shell/test_shell.py"
_FRAMES = "curator/test_frame_methods.py"
_LISTINGS = "curator/test_listings.py"

MUTANTS = (
    Mutant(
        "the offered δ is more than what is left",
        Kind.DELTA,
        "curator.previews.explaining:offered_delta",
        "min(DEFAULT_DELTA, left / _PART_OF_LEFT)",
        "DEFAULT_DELTA",
        (f"{_DELTA}::test_the_offer_fits_what_is_left",),
    ),
    Mutant(
        "the offered δ forgets the analyst's share",
        Kind.DELTA,
        "curator.previews.explaining:offered_delta",
        "min((budget.remaining.get('failure', Fraction(0)) for budget in budgets))",
        "budgets[0].remaining.get('failure', Fraction(0))",
        (f"{_DELTA}::test_the_offer_fits_what_is_left",),
    ),
    Mutant(
        "a release spends a δ that nobody named",
        Kind.CONSENT,
        "curator.proposals.questions:Question.release",
        "self.price_release(request)",
        "self.price_release(self._with_defaults(request))",
        (f"{_DELTA}::test_a_release_spends_no_delta_that_was_not_named",),
    ),
    Mutant(
        "the accepted default is more than what is left",
        Kind.CONSENT,
        "curator.proposals.question_advice:with_offered_delta",
        "request.accept_delta(question.default_delta)",
        "request.accept_delta(question.assumed_delta)",
        (f"{_DELTA}::test_accepting_the_default_is_refused_where_nothing_is_offered",),
    ),
    Mutant(
        "a workload spends a δ that nobody accepted",
        Kind.CONSENT,
        "curator.proposals.workloads:WorkloadProposal.release",
        "request.accept_delta(self.default_delta)",
        "request.with_default_delta(self.default_delta)",
        (f"{_DELTA}::test_a_release_spends_no_delta_that_was_not_named",),
    ),
    Mutant(
        "any word accepts the offered δ",
        Kind.CONSENT,
        "release.requests:PriceRequest.accept_delta",
        "self.delta == ACCEPT_DEFAULT",
        "isinstance(self.delta, str)",
        (f"{_DELTA}::test_accepting_the_default_is_refused_where_nothing_is_offered",),
    ),
    Mutant(
        "a combined question hides the δ that it assumes",
        Kind.CONSENT,
        "curator.proposals.combined_questions:CombinedQuestion.error",
        "left=remaining, assumed_delta=assumed",
        "left=remaining",
        (f"{_DELTA}::test_one_word_accepts_the_offered_delta",),
    ),
    Mutant(
        "a yes to every price is a yes to a δ",
        Kind.CONSENT,
        "cli.shell.session:ShellSession._confirmed_price",
        "forecast.assumed_delta and self.interactive and (not self.spends_unconfirmed)",
        "forecast.assumed_delta",
        (f"{_DELTA}::test_yes_to_all_is_no_yes_to_a_delta",),
    ),
    Mutant(
        "a script accepts a δ that nobody was asked about",
        Kind.CONSENT,
        "cli.commands.query:_release_with_delta",
        "not _can_ask_person()",
        "False",
        (f"{_DELTA}::test_a_script_must_name_it",),
    ),
    Mutant(
        "a no to a δ is a yes",
        Kind.CONSENT,
        "cli.commands.query:_release_with_delta",
        "if not click.confirm(f'{needs_delta} Ask at {forecast.price}?', default=True, err=True):\n            raise",
        "click.confirm(f'{needs_delta} Ask at {forecast.price}?', default=True, err=True)",
        (f"{_DELTA}::test_a_no_spends_nothing",),
    ),
    Mutant(
        "describing a view asks a question",
        Kind.CONSENT,
        "curator.tables:TableView.describe",
        "' '.join(self._rows.steps)",
        "str(self.agg(n='COUNT(*)').release(epsilon=1).rows)",
        (f"{_LISTINGS}::test_the_data_change_nothing",),
    ),
    Mutant(
        "an average from habit is a sum",
        Kind.RANGES,
        "curator.frame_methods:AggregateMethods.mean",
        "aggregates.mean",
        "aggregates.sum",
        (f"{_FRAMES}::test_a_habit_is_the_builders_own_step",),
    ),
    Mutant(
        "counts of values are not sorted by their count",
        Kind.KEYS,
        "curator.frame_methods:RowMethodAliases.value_counts",
        "{COUNT_COLUMN} DESC",
        "{COUNT_COLUMN} ASC",
        (f"{_FRAMES}::test_a_habit_is_the_builders_own_step",),
    ),
    Mutant(
        "a data frame has lost the terms of its numbers",
        Kind.RANGES,
        "release.answers.answer:Answer.to_pandas",
        "{**self.receipt.terms(), **facts}",
        "{'warnings': list(self.warnings)}",
        (f"{_FRAMES}::test_a_data_frame_carries_ranges_and_the_terms_of_the_answer",),
    ),
    Mutant(
        "nobody leaves an open quote",
        Kind.HOSTILE,
        "cli.shell.completion:_as_command",
        "command.lower() in _WAYS_OUT or not has_open_quote(before)",
        "not has_open_quote(before)",
        (f"{_SHELL}::test_texts_are_cut_into_pieces",),
    ),
    Mutant(
        "a column on a line of its own is taken for a command",
        Kind.HOSTILE,
        "cli.shell.completion:_as_command",
        "name in _BARE_WORDS or (name.startswith('.') and name[1:] not in _DOT_COMMANDS)",
        "False",
        (f"{_SHELL}::test_texts_are_cut_into_pieces",),
    ),
)

test_the_tests_of_habits_notice = suite(MUTANTS)
