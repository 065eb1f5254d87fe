"""Seeded bugs in what a bought synopsis answers for nothing, and in functions on cells."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_FREE = "curator/proposals/test_bought_synopses.py::"
_CELLS = "publish/cells/test_cell_functions.py::"
_SAME = (f"{_FREE}test_only_of_the_same_data_policy_and_limits",)
_ONE_VALUE = (f"{_CELLS}test_one_value_is_what_the_engine_makes_of_it",)
_INSIDE = (f"{_CELLS}test_a_range_holds_what_comes_out_of_any_value_inside",)
MUTANTS = (
    Mutant(
        "a synopsis of some rows answers for all of them",
        Kind.AUDIT,
        "curator/proposals/bought_synopses.py",
        "    if own.where:\n",
        "    if own.where is None:\n",
        (f"{_FREE}test_no_synopsis_no_free_answer",),
    ),
    Mutant(
        "a synopsis with tighter limits answers for the wider ones",
        Kind.LIMITS,
        "curator/proposals/bought_synopses.py",
        "if own.plan.rows != limits.rows:",
        "if own.plan.rows > limits.rows:",
        _SAME,
    ),
    Mutant(
        "a synopsis of other data answers",
        Kind.REUSE,
        "ledger/accounts/account.py",
        'where = {"account": self.name, "data": self._guarded.data(entries.name(data, "data"))}',
        'where = {"account": self.name}',
        _SAME,
    ),
    Mutant(
        "a synopsis under another policy answers",
        Kind.REUSE,
        "curator/proposals/bought_synopses.py",
        "digest(context.declared, table)",
        "digest('', table)",
        _SAME,
    ),
    Mutant(
        "the synopsis of another account answers",
        Kind.REUSE,
        "ledger/accounts/account.py",
        'where = {"account": self.name, "data": self._guarded',
        'where = {"data": self._guarded',
        (f"{_FREE}test_other_accounts_have_their_own",),
    ),
    Mutant(
        "a level answers for the column that is called so",
        Kind.KEYS,
        "publish/cells/answering.py",
        "    if named - known:\n",
        "    if named - known - {*face.level_columns}:\n",
        (f"{_FREE}test_a_level_does_not_answer_for_a_column_of_its_name",),
    ),
    Mutant(
        "bins answer for the values that are grouped by",
        Kind.KEYS,
        "publish/cells/answering.py",
        "key.reference.name in binned:",
        "key.reference.name not in known:",
        (f"{_FREE}test_what_means_something_else_there_is_not_answered",),
    ),
    Mutant(
        "what is wanted is not compared",
        Kind.AUDIT,
        "curator/proposals/bought_synopses.py",
        "if not self.widths[name] <= goal]",
        "if self.widths[name] < 0]",
        (f"{_FREE}test_what_is_wanted_decides",),
    ),
    Mutant(
        "the worst synopsis is taken for the best",
        Kind.AUDIT,
        "curator/proposals/bought_synopses.py",
        "    return sum(found.widths.values())\n",
        "    return -sum(found.widths.values())\n",
        (f"{_FREE}test_what_is_wanted_decides",),
    ),
    Mutant(
        "a free answer has a price",
        Kind.CHARGE_ORDER,
        "curator/proposals/questions.py",
        'if fresh or exact(request.delta, "delta") or any(',
        'if fresh or exact(request.delta, "delta") and any(',
        (f"{_FREE}test_a_free_answer_has_no_price",),
    ),
    Mutant(
        "the logarithm of a bin that holds 0 is never missing",
        Kind.NAN,
        "publish/cells/cell_numbers.py",
        "found.null | (found.there & ~positive))",
        "found.null)",
        _INSIDE,
    ),
    Mutant(
        "a power of numbers on both sides of 0 lies between those of the ends",
        Kind.ROUNDING,
        "publish/cells/cell_numbers.py",
        "ends += [np.where(crosses & whole & (y.low > 0), 0.0, ends[0])]",
        "ends += [ends[0]]",
        _INSIDE,
    ),
    Mutant(
        "numbers below 0 have broken powers",
        Kind.NAN,
        "publish/cells/cell_numbers.py",
        "    if x < 0 and y != math.floor(y):\n        return math.nan\n",
        "    if x < 0 and y != math.floor(y):\n        return 0.0\n",
        _ONE_VALUE,
    ),
    Mutant(
        "a half is rounded up by adding one",
        Kind.ROUNDING,
        "publish/cells/cell_numbers.py",
        "whole = np.trunc(size) + (size - np.trunc(size) >= 0.5)",
        "whole = np.floor(size + 0.5)",
        _ONE_VALUE,
    ),
    Mutant(
        "a position before the first letter is the first",
        Kind.ROUNDING,
        "publish/cells/cell_texts.py",
        "max(first + count - begin, 0))",
        "max(count, 0))",
        _ONE_VALUE,
    ),
    Mutant(
        "a text is written of a bin whose days differ",
        Kind.KEYS,
        "publish/cells/cell_dates.py",
        "        if least != most:\n            return None\n",
        "        if least > most:\n            return None\n",
        _INSIDE,
    ),
    Mutant(
        "what was read of one ledger answers for the same line of another",
        Kind.REUSE,
        "curator/proposals/bought_synopses.py",
        "        found = _kept.pop(bought.hash, None)\n"
        "    if found is None:\n"
        "        found = _read(bought, context)\n"
        "    with _keeping:\n"
        "        _kept[bought.hash] = found",
        "        found = _kept.pop(str(bought.number), None)\n"
        "    if found is None:\n"
        "        found = _read(bought, context)\n"
        "    with _keeping:\n"
        "        _kept[str(bought.number)] = found",
        (f"{_FREE}test_a_free_answer_is_what_the_curator_would_say",),
    ),
    Mutant(
        "the synopsis of one table answers for another",
        Kind.KEYS,
        "curator/proposals/bought_synopses.py",
        "digest(context.declared, table)[:32]",
        "digest(context.declared, '')[:32]",
        (f"{_FREE}test_other_tables_have_their_own",),
    ),
    Mutant(
        "a free answer has the receipt of its first reading",
        Kind.CHARGE_ORDER,
        "curator/proposals/bought_synopses.py",
        "return replace(found[1].face, receipt=_receipt(found[0], context))",
        "return found[1].face",
        (f"{_FREE}test_an_analyst_may_use_what_the_account_published",),
    ),
)

test_the_tests_of_bought_synopses_notice = suite(MUTANTS)
