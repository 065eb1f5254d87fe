"""SQL text → typed tree, as pairs; and everything else refused with a code and a place."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from plan.samples import NESTED, nested, read, resolve, shown
from sfumato.errors import Unsupported
from sfumato.plan.sql.fragments import parse_expression
from sfumato.plan.sql.sql_expressions import DEEPEST, lower_expression

READ = {
    # literals
    "12": "integer:12",
    "1_000": "integer:1000",
    "1.50": "real:3/2",
    "1e5": "real:100000",
    "-2.5": "real:-5/2",
    "4611686018427387904": "integer:4611686018427387904",
    "1e20": "real:100000000000000000000",
    "'it''s'": "text:it's",
    "''": "text:",
    "DATE '2020-02-29'": "date:2020-02-29",
    "TIMESTAMP '2020-02-29 23:59:00'": "timestamp:2020-02-29 23:59:00",
    "CAST('2020-02-29' AS TIMESTAMP)": "timestamp:2020-02-29 00:00:00",
    "true": "boolean:True",
    "NULL": "NULL",
    # columns
    "age": "age",
    "t.age": "age",
    '"age"': "age",
    "(age)": "age",
    "+age": "age",
    # conditions
    "age = 1": "(= age integer:1)",
    "age == 1": "(= age integer:1)",
    "age != 1.5": "(<> (CAST real age) real:3/2)",
    "age <= count": "(<= age count)",
    "born < '2020-06-01'": "(< born date:2020-06-01)",
    "'2020-06-01' > born": "(> date:2020-06-01 born)",
    "moment >= '2020-06-01'": "(>= moment timestamp:2020-06-01 00:00:00)",
    "moment >= '2020-06-01T10:30'": "(>= moment timestamp:2020-06-01 10:30:00)",
    "born = moment": "(= (CAST timestamp born) moment)",
    "age = NULL": "(= age NULL)",
    "age BETWEEN 1 AND 5 AND member": "(AND (BETWEEN age integer:1 integer:5) member)",
    "age NOT BETWEEN 1 AND 5": "(NOT (BETWEEN age integer:1 integer:5))",
    "age BETWEEN SYMMETRIC 5 AND 1": "(OR (BETWEEN age integer:5 integer:1) (BETWEEN age integer:1 integer:5))",
    "age IS NOT DISTINCT FROM 1": "(COALESCE (= age integer:1) (AND (IS NULL age) (IS NULL integer:1)))",
    "IFF(member, 1, 2)": "(CASE member integer:1 integer:2)",
    "ISNULL(age)": "(IS NULL age)",
    "age // 10": "(// age integer:10)",
    "CONTAINS(name, 'x')": "(LIKE name text:%x%)",
    "CONTAINS(name, '_')": "(<> (REPLACE name text:_ text:) name)",
    "SUFFIX(name, 'x')": "(= (RIGHT name (LENGTH text:x)) text:x)",
    "CAST(pay AS DECIMAL(10, 2))": "(ROUND pay integer:2)",
    "pay::NUMERIC": "(ROUND pay integer:3)",
    "age::TINYINT": "age",
    "STRFTIME('%Y', born)": "(STRFTIME born text:%Y)",
    "DAYNAME(born)": "(STRFTIME born text:%A)",
    "DOW(born)": "(EXTRACT text:dow born)",
    "DOY(born)": "(EXTRACT text:doy born)",
    "DATE_ADD(born, INTERVAL 2 DAY)": "(DATE_ADD born integer:2 text:day)",
    "DATE(moment)": "(CAST date moment)",
    "colour IN ('red', 'x')": "(IN colour text:red text:x)",
    "age NOT IN (1, 2.5)": "(NOT (IN (CAST real age) real:1 real:5/2))",
    "born IN ('2020-01-01', NULL)": "(IN born date:2020-01-01 NULL)",
    "name LIKE 'A%'": "(LIKE name text:A%)",
    "name NOT LIKE 'A%'": "(NOT (LIKE name text:A%))",
    "name ILIKE 'a%'": "(ILIKE name text:a%)",
    "name NOT ILIKE 'a%'": "(NOT (ILIKE name text:a%))",
    "age IS NULL": "(IS NULL age)",
    "age IS NOT NULL": "(NOT (IS NULL age))",
    "member IS TRUE": "(IS TRUE member)",
    "member IS NOT FALSE": "(NOT (IS FALSE member))",
    "NOT member OR age = 1 AND member": "(OR (NOT member) (AND (= age integer:1) member))",
    "member AND member AND member": "(AND member member member)",
    "member AND (member AND member)": "(AND member (AND member member))",
    # choices
    "CASE WHEN member THEN 'a' END": "(CASE member text:a NULL)",
    "CASE WHEN member THEN 1 WHEN age > 3 THEN 2.5 ELSE age END": (
        "(CASE member real:1 (> age integer:3) real:5/2 (CAST real age))"
    ),
    "CASE age WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END": (
        "(CASE (= age integer:1) text:a (= age integer:2) text:b text:c)"
    ),
    "IF(member, age, 0)": "(CASE member age integer:0)",
    "COALESCE(NULL, age, 0)": "(COALESCE NULL age integer:0)",
    "IFNULL(name, 'none')": "(COALESCE name text:none)",
    "NULLIF(age, 0)": "(NULLIF age integer:0)",
    # arithmetic
    "age - 5 - 3": "(- (- age integer:5) integer:3)",
    "age + 1.5": "(+ (CAST real age) real:3/2)",
    "count + 1": "(+ (CAST real count) real:1)",
    "-age * 2": "(* (NEGATE age) integer:2)",
    "-age ** 2": "(POW (CAST real (NEGATE age)) real:2)",
    "2 ^ 3 ^ 2": "(POW (POW real:2 real:3) real:2)",
    "age / 7": "(/ (CAST real age) real:7)",
    "MOD(age, 7)": "(% age integer:7)",
    "@weight": "(ABS weight)",
    "ROUND(weight)": "(ROUND weight integer:0)",
    "ROUND(weight, -2)": "(ROUND weight integer:-2)",
    "ROUND(age, 2)": "age",
    "CEILING(weight)": "(CEIL weight)",
    "LEAST(age, 10, NULL)": "(LEAST age integer:10 NULL)",
    "WIDTH_BUCKET(age, 0, 100, 10)": "(WIDTH_BUCKET (CAST real age) real:0 real:100 integer:10)",
    # text
    "TRIM(LEADING 'x' FROM name)": "(LTRIM name text:x)",
    "TRIM(TRAILING FROM name)": "(RTRIM name)",
    "TRIM(BOTH 'x' FROM name)": "(TRIM name text:x)",
    "RTRIM(name, 'x')": "(RTRIM name text:x)",
    "SUBSTRING(name FROM 2 FOR 3)": "(SUBSTR name integer:2 integer:3)",
    "SUBSTR(name, NULL)": "(SUBSTR name NULL)",
    "LEFT(name, age)": "(LEFT name age)",
    "LEN(name)": "(LENGTH name)",
    "CONCAT(name, NULL, 'x')": "(CONCAT name NULL text:x)",
    "name || '-' || colour": "(|| name text:- colour)",
    "name ^@ 'x'": "(STARTS_WITH name text:x)",
    "REPLACE(name, 'a', '')": "(REPLACE name text:a text:)",
    # dates: the parser turns arguments round and renames units
    "EXTRACT(year FROM born)": "(EXTRACT text:year born)",
    "EXTRACT('dow' FROM born)": "(EXTRACT text:dow born)",
    "DATE_PART('week', born)": "(EXTRACT text:week born)",
    "DAYOFWEEK(born)": "(EXTRACT text:dow born)",
    "MONTH(born)": "(EXTRACT text:month born)",
    "DATE_TRUNC('month', born)": "(DATE_TRUNC text:month born)",
    "DATE_DIFF('day', born, seen)": "(DATE_DIFF text:day born seen)",
    "DATEDIFF('month', born, DATE '2021-01-01')": "(DATE_DIFF text:month born date:2021-01-01)",
    "born - seen": "(DATE_DIFF text:day seen born)",
    "born + INTERVAL '3 months'": "(DATE_ADD born integer:3 text:month)",
    "born - INTERVAL 3 DAY": "(DATE_ADD born integer:-3 text:day)",
    "INTERVAL '1' YEAR + born": "(DATE_ADD born integer:1 text:year)",
    "born + INTERVAL 5 MINUTE": "(DATE_ADD (CAST timestamp born) integer:5 text:minute)",
    # conversions
    "CAST(age AS BIGINT)": "age",
    "age::DOUBLE": "(CAST real age)",
    "TRY_CAST(name AS INT)": "(CAST integer name)",
    "CAST(NULL AS DATE)": "NULL",
    "-weight::INTEGER": "(NEGATE (CAST real (CAST integer weight)))",
}

REFUSED = {
    # what is not a value of one row
    "SUM(age)": "aggregate",
    "1 + COUNT(*)": "aggregate",
    "MEDIAN(age)": "aggregate",
    "ANY_VALUE(age)": "aggregate",
    "SUM(age) FILTER (WHERE member)": "aggregate",
    "SUM(age) OVER ()": "window",
    "ROW_NUMBER() OVER ()": "window",
    "age IN (SELECT 1)": "subquery",
    "EXISTS (SELECT 1)": "subquery",
    "(SELECT 1)": "subquery",
    "age > ALL (SELECT 1)": "subquery",
    "*": "star",
    "COLUMNS('a')": "star",
    # what depends on more than the row
    "RANDOM()": "random",
    "UUID()": "random",
    "CURRENT_DATE": "clock",
    "NOW()": "clock",
    "TODAY()": "clock",
    "GETVARIABLE('x')": "function",
    "CURRENT_SETTING('x')": "function",
    "HASH(name)": "function",
    "ERROR('x')": "function",
    # what some engines know
    "REGEXP_EXTRACT(name, 'x')": "regex",
    "REGEXP_REPLACE(name, 'x', 'y')": "regex",
    "name ~* 'x'": "regex",
    "REGEXP_MATCHES(name, 'x', 'i')": "regex",
    "REGEXP_MATCHES(name, colour)": "literal-needed",
    "REGEXP_MATCHES(age, 'x')": "type-mismatch",
    "REGEXP_MATCHES(name || name, 'x')": "regex",
    "name SIMILAR TO 'x'": "regex",
    "name GLOB 'x'": "regex",
    "name LIKE 'x' ESCAPE '!'": "like-escape",
    "name LIKE colour": "literal-needed",
    "name COLLATE nocase": "function",
    "STRPOS(name, 'x')": "function",
    "CONCAT_WS(',', name)": "function",
    "FOO(age)": "function",
    "LOG(age)": "function",
    "age & 1": "bits",
    "XOR(age, count)": "bits",
    "[age]": "nested",
    "age[1]": "nested",
    "{'a': age}": "nested",
    "(age, count)": "nested",
    "(age, count) IN ((1, 2))": "nested",
    "?": "parameter",
    "$1": "parameter",
    "moment AT TIME ZONE 'UTC'": "time-zone",
    "INTERVAL 1 DAY": "interval",
    "DATE_SUB('day', born, seen)": "function",
    "age < count < 5": "chained",
    "age = 1 = member": "chained",
    # types
    "age = 'x'": "type-mismatch",
    "colour = 5": "type-mismatch",
    "age + 'x'": "type-mismatch",
    "name + name": "type-mismatch",
    "age || 'x'": "type-mismatch",
    "NOT age": "type-mismatch",
    "member AND age": "type-mismatch",
    "member + 1": "type-mismatch",
    "LOWER(age)": "type-mismatch",
    "ABS(name)": "type-mismatch",
    "born + 3": "type-mismatch",
    "born = 5": "type-mismatch",
    "born = name": "type-mismatch",
    "moment - moment": "type-mismatch",
    "LEAST(member, member)": "type-mismatch",
    "CASE WHEN age THEN 1 END": "type-mismatch",
    "CASE WHEN member THEN 1 ELSE 'x' END": "type-mismatch",
    "COALESCE(age, 'none')": "type-mismatch",
    "CAST(born AS INTEGER)": "type-mismatch",
    "CAST(age AS DATE)": "type-mismatch",
    "CAST(age AS HUGEINT)": "cast-type",
    "weight // 2": "type-mismatch",
    "age // 2.5": "type-mismatch",
    "TRUNC(weight, 2)": "clause",
    "CONTAINS(name, colour)": "literal-needed",
    "STRFTIME(born, '%Q')": "date-format",
    "STRFTIME(born, 'plain')": "date-format",
    "STRFTIME(born, '100%')": "date-format",
    "STRFTIME(born, colour)": "literal-needed",
    "STRFTIME(age, '%Y')": "type-mismatch",
    "DAYNAME(name)": "type-mismatch",
    "DATE_ADD(born, 3)": "function",
    "CAST(weight AS DECIMAL(38, 30))": "digits",
    "age::HUGEINT": "cast-type",
    "moment::TIMESTAMPTZ": "cast-type",
    "EXTRACT(hour FROM born)": "type-mismatch",
    "DATE_TRUNC('hour', born)": "type-mismatch",
    "EXTRACT(year FROM name)": "type-mismatch",
    "SUBSTR(name, 1.5)": "type-mismatch",
    "SUBSTR(name, count)": "unbounded-position",
    # literals
    "born = 'hello'": "date-literal",
    "born = '2020-01-01 10:00:00'": "date-literal",
    "DATE '2020-02-30'": "date-literal",
    "DATE 'yesterday'": "date-literal",
    "1e400": "literal",
    "1e151": "literal",
    "1e-151": "literal",
    "4611686018427387905": "literal",
    "-4611686018427387905": "literal",
    "99999999999999999999": "literal",
    "1e-9999999": "literal",
    "1e" + "9" * 30: "literal",
    "1" * 200: "literal",
    "'" + "x" * 10_001 + "'": "literal",
    "age IN (1, count)": "literal-needed",
    "ROUND(weight, age)": "literal-needed",
    "ROUND(weight, 40)": "digits",
    "WIDTH_BUCKET(age, 10, 0, 5)": "buckets",
    "WIDTH_BUCKET(age, 0, 10, 0)": "buckets",
    "WIDTH_BUCKET(age, count, 10, 5)": "literal-needed",
    "REPLACE(name, 'a', colour)": "literal-needed",
    "REPLACE(name, 'a', '" + "x" * 33 + "')": "replacement",
    "EXTRACT(timezone FROM paid)": "unit",
    "DATE_TRUNC('fortnight', born)": "unit",
    "STRPTIME(name, '%Q')": "date-format",
    "STRPTIME(name, '%d.%m')": "date-format",
    "STRPTIME(name, '%d%f%m%Y')": "date-format",
    "STRPTIME(name, colour)": "literal-needed",
    "STRPTIME(age, '%d.%m.%Y')": "type-mismatch",
    "STRPTIME(name, [])": "arguments",
    "TO_DATE(name, 'DD.MM.YYYY')": "function",
    "TO_CHAR(born, 'YYYY')": "function",
    "AGE(born, seen)": "function",
    "AGE(born)": "function",
    "EXTRACT(hour FROM AGE(born, seen))": "unit",
    "EXTRACT(year FROM AGE(moment, seen))": "type-mismatch",
    "TIME_BUCKET(age, born)": "time-bucket",
    "TIME_BUCKET(INTERVAL '0 days', born)": "time-bucket",
    "TIME_BUCKET(INTERVAL '-3 days', born)": "time-bucket",
    "TIME_BUCKET(INTERVAL '9999999 days', born)": "time-bucket",
    "TIME_BUCKET(INTERVAL '2 hours', born)": "type-mismatch",
    "TIME_BUCKET(INTERVAL '2 months', born, DATE '2020-01-15')": "time-bucket",
    "TIME_BUCKET(INTERVAL '2 days', born, seen)": "literal-needed",
    "DATE_DIFF('fortnight', born, seen)": "unit",
    "born + INTERVAL '1 month 2 days'": "interval",
    "born + INTERVAL 1.5 DAY": "interval",
    "born + INTERVAL (age) DAY": "interval",
    "born + INTERVAL '20000 years'": "interval",
    "born + INTERVAL '9999999999999 days'": "interval",
    "age IN ()": "arguments",
    "NULLIF(LOWER(LOWER(LOWER(name))), wrong)": "no-column",
    "other.age": "no-column",
    "a.b.age": "column",
}


@pytest.mark.parametrize(("text", "tree"), READ.items())
def test_what_is_read(text: str, tree: str) -> None:
    assert shown(read(text)) == tree


@pytest.mark.parametrize(("text", "code"), REFUSED.items(), ids=lambda text: text[:40])
def test_what_is_refused(text: str, code: str) -> None:
    with pytest.raises(Unsupported) as caught:
        read(text)
    assert caught.value.code == code
    assert caught.value.fix
    assert caught.value.rule.endswith(f"[{code}]")


PLACES = {
    "foo(age)": (1, 8),
    "age +\n   foo(age)": (2, 4),
    "age = 1 AND\n\n  wrong > 5": (3, 3),
    "CASE WHEN age > 5 THEN regexp_replace(name, 'x', '') END": (1, 31),
    "LOWER(  age)": (1, 8),
    "member AND age IN (1, 'x')": (1, 19),
}


@pytest.mark.parametrize(("text", "place"), PLACES.items())
def test_a_refusal_names_the_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(Unsupported) as caught:
        read(text)
    assert (caught.value.line, caught.value.column) == place
    assert f"line {place[0]}, column {place[1]}" in str(caught.value)


def test_a_flag_that_is_not_understood_is_refused() -> None:
    """The parser may learn new flags: none is ever dropped in silence."""
    node = sqlglot.parse_one("SELECT ROUND(age, 2)", read="duckdb").expressions[0]
    node.set("truncate", exp.Boolean(this=True))
    with pytest.raises(Unsupported) as caught:
        lower_expression(node, resolve)
    assert caught.value.code == "clause"


@pytest.mark.parametrize("form", NESTED)
def test_forty_levels_are_read(form: str) -> None:
    assert shown(nested(form, 40)).count("(") >= 40


def test_deeper_than_the_limit_is_refused_and_never_crashes() -> None:
    node = exp.column("age")
    for _ in range(5000):
        node = exp.Neg(this=node)
    with pytest.raises(Unsupported) as caught:
        lower_expression(node, resolve)
    assert caught.value.code == "too-deep"
    for _ in range(2):
        with pytest.raises(Unsupported):
            read(" + ".join(["age"] * (DEEPEST + 1)))


def test_long_chains_of_conditions_are_one_level() -> None:
    tree = read(" OR ".join(f"age = {i}" for i in range(2000)))
    assert len(tree.arguments) == 2000


def test_a_large_value_after_case_is_refused() -> None:
    """It stands once for every WHEN: nested, the tree would double at each level."""
    with pytest.raises(Unsupported) as caught:
        read("CASE " + " + ".join(["age"] * 20) + " WHEN 1 THEN 2 END")
    assert caught.value.code == "case-operand"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("strpdate(name, '%Y')", "STRPDATE"),
        ("date_bin(5, born)", "DATE_BIN"),
        ("repeat(name, 3)", "REPEAT"),
        ("epoch_ns(moment)", "EPOCH_NS"),
        ("json_array(age)", "JSON_ARRAY"),
        ("char_length(name, 2)", "CHAR_LENGTH"),
        ("ceil(weight, 2)", "CEIL"),
        ("unheard_of(age)", "UNHEARD_OF"),
    ],
)
def test_a_refusal_names_a_function_as_it_was_typed(text: str, name: str) -> None:
    """The parser has one class for all spellings of a function, whose own name nobody wrote."""
    with pytest.raises(Unsupported) as refused:
        lower_expression(parse_expression(text), resolve)
    assert name in refused.value.rule.split(" is not ")[0].split()


@pytest.mark.parametrize("text", ["weight > 1e151", "age > 1e400", f"age = {2**70}", f"name = '{'x' * 20_000}'"])
def test_a_refusal_of_a_literal_says_the_rule_of_one_value(text: str) -> None:
    """A literal is the only value of its domain, but nobody wrote a list."""
    with pytest.raises(Unsupported) as refused:
        read(text)
    assert refused.value.code == "literal"
    assert "list" not in refused.value.rule
