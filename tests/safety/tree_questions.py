"""Random questions about what is found of one unit's rows, over the columns of ``worlds``."""

from __future__ import annotations

from random import Random

from safety.worlds import PREDICATES, VALUES, World

# fmt: off
PER_UNIT = (
    "COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)", "MIN(x)", "MAX(x)", "COUNT(DISTINCT x)", "LEAST(COUNT(*), 2)",
    "FIRST(x ORDER BY day)", "LAST(x ORDER BY day DESC, note)", "ARG_MIN(x, day)", "ARG_MAX(x, cost)",
    "MODE(x)", "COUNT(DISTINCT (code, flag))",
)
TOLD = ("BOOL_OR(flag)", "BOOL_AND(flag)", "FIRST(region ORDER BY day)", "LAST(code ORDER BY cost)", "MIN(code)")
RUNNING = (
    "SUM(x) OVER (o)", "COUNT(*) OVER (o)", "AVG(x) OVER (o ROWS UNBOUNDED PRECEDING)", "MIN(x) OVER (o)",
    "MAX(x) OVER (PARTITION BY who)", "LAG(x) OVER (o)", "LEAD(x, 2, 0) OVER (o)", "FIRST_VALUE(x) OVER (o)",
    "LAST_VALUE(x) OVER (o)", "ROW_NUMBER() OVER (o)", "RANK() OVER (o)", "DENSE_RANK() OVER (o)",
    "SUM(x) OVER (o ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
)
# fmt: on
ORDERS = ("day", "cost DESC", "note NULLS FIRST", "flag, day DESC", "age % 7, region")
BOUNDED = "LEAST(GREATEST({}, -50), 50)"


def tree(random: Random, made: World) -> str:
    """A question over a subquery that looks at several rows of a unit at once."""
    assert made.units
    return random.choice((_per_unit, _windowed, _both))(random)


def _value(random: Random) -> str:
    return BOUNDED.format(random.choice(VALUES[:12]))


def _where(random: Random) -> str:
    return f" WHERE {random.choice(PREDICATES)}" if random.random() < 0.4 else ""


def _found(random: Random) -> str:
    made = random.choice(PER_UNIT).replace("x", _value(random))
    filtered = random.random() < 0.3 and not made.startswith("LEAST")
    return f"{made} FILTER (WHERE {random.choice(PREDICATES)})" if filtered else made


def _over(random: Random) -> str:
    by = random.choice(("who", "who", "region, who"))
    order = f"PARTITION BY {by} ORDER BY {random.choice(ORDERS)}"
    made = random.choice(RUNNING)
    return made.replace("x)", f"{_value(random)})").replace("x,", f"{_value(random)},").replace("(o", f"({order}")


def _outer(random: Random, source: str, key: str) -> str:
    measures = ", ".join(random.sample(("COUNT(*)", "SUM(v)", "AVG(v)", "COUNT(v)", "COUNT(DISTINCT who)"), 2))
    test = random.choice(("", "", " WHERE v > 1", " WHERE v IS NOT NULL"))
    shown, grouped = random.choice((("", ""), (f"{key} AS k, ", " GROUP BY 1")))
    return f"SELECT {shown}{measures} FROM ({source}) AS t{test}{grouped}"


def _per_unit(random: Random) -> str:
    by = random.choice(("", "", ", code", ", region, flag"))
    having = random.choice(("", "", " HAVING COUNT(*) > 1", " HAVING MAX(cost) > 1"))
    found = f"SELECT who, {_found(random)} AS v, {random.choice(TOLD)} AS told FROM people"
    return _outer(random, f"{found}{_where(random)} GROUP BY who{by}{having}", "told")


def _windowed(random: Random) -> str:
    qualify = random.choice(("", "", " QUALIFY ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) <= 2"))
    return _outer(random, f"SELECT region, {_over(random)} AS v FROM people{_where(random)}{qualify}", "region")


def _both(random: Random) -> str:
    """What is found of a unit's rows after windows were laid over them."""
    inner = f"SELECT who, day, {_over(random)} AS w FROM people{_where(random)}"
    found = random.choice(("SUM(w)", "MAX(w)", "FIRST(w ORDER BY day)", "COUNT(w)", "AVG(w)"))
    return _outer(
        random, f"SELECT {found} AS v, MIN(day) AS first FROM ({inner}) GROUP BY who", "DATE_TRUNC('month', first)"
    )
