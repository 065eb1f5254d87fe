"""Ordinary rows, and questions whose answers the engine itself gives when asked as they stand."""

from __future__ import annotations

import datetime as dt

ROWS = [
    [
        42,
        7,
        0.25,
        12.5,
        -3.5,
        "Hello",
        "red",
        "Ulm",
        True,
        dt.date(2020, 3, 4),
        dt.date(2019, 2, 3),
        dt.datetime(2020, 1, 1, 5, 6, 7),
        dt.datetime(2021, 5, 6, 7, 8, 9),
    ],
    [
        0,
        -3,
        0.5,
        -100.0,
        2.5,
        "  Ünder_% ",
        "blue",
        None,
        False,
        dt.date(2020, 2, 29),
        dt.date(2024, 12, 30),
        dt.datetime(2020, 1, 2, 12),
        dt.datetime(1969, 12, 31, 23, 59, 59),
    ],
    [
        110,
        1000,
        0.0,
        1000.0,
        0.125,
        "",
        "red",
        "Bonn",
        None,
        dt.date(2020, 12, 31),
        dt.date(1900, 1, 1),
        dt.datetime(2020, 1, 1),
        dt.datetime(2000, 2, 29, 12, 30),
    ],
    [
        1,
        2,
        0.1,
        0.01,
        1e6,
        "17",
        "blue",
        "Ulm",
        True,
        dt.date(2020, 1, 1),
        dt.date(1999, 12, 31),
        dt.datetime(2020, 1, 2),
        dt.datetime(1970, 1, 1),
    ],
    [
        7,
        4,
        0.5,
        1.5,
        -1e-3,
        "true",
        "red",
        None,
        False,
        dt.date(2020, 6, 30),
        dt.date(2020, 6, 28),
        dt.datetime(2020, 1, 1, 23, 59),
        dt.datetime(2020, 12, 31, 23, 59),
    ],
    [None] * 13,
]

ORDINARY = """
age + 1
count + 1
age * share
age / 7
pay / age
weight / count
age // 10
-age // 10
age // -7
count // 3
age // NULLIF(count, 0)
count // (age + 1)
age % 5
-age % 5
age % count
weight % 2
7 % -3
-age
-count
- -age
-age ** 2
2 ^ 3 ^ 2
2 * 3 ** 2
age - 5 - 3
age / 5 * 3
age * 5 % 3
5 - age % 4
ABS(weight)
ABS(age - 50)
SIGN(weight)
ROUND(weight)
ROUND(share, 1)
ROUND(weight, 2)
ROUND(weight, -3)
ROUND(age, -1)
FLOOR(weight)
TRUNC(weight)
TRUNC(age)
CAST(CAST(weight AS DECIMAL(18, 1)) AS DOUBLE)
age::SMALLINT
town IS DISTINCT FROM 'Ulm'
town IS NOT DISTINCT FROM colour
member IS NOT DISTINCT FROM NULL
count IS DISTINCT FROM age
age == 42
age != 42
CONTAINS(name, 'ell')
CONTAINS(name, '_%')
CONTAINS(name, '')
ENDS_WITH(name, 'lo')
SUFFIX(name, '')
PREFIX(name, 'He')
STRFTIME(born, '%Y-%m')
STRFTIME('%d.%m.%y', seen)
STRFTIME(seen, '%A, %a, %B %b %j %V %u %w %%!')
STRFTIME(moment, '%Y-%m-%d %H:%M:%S')
STRFTIME(born, '%H')
DAYNAME(seen)
MONTHNAME(moment)
ISODOW(born)
WEEKDAY(born)
SECOND(moment)
DATE_PART('isodow', moment)
DATE_PART('second', paid)
DATE(moment)
DATE_ADD(born, INTERVAL 1 MONTH)
ISODOW(moment) // 2
CEIL(share)
SQRT(age)
SQRT(weight)
LN(age + 1)
LN(weight)
EXP(share)
EXP(weight)
POW(age, 2)
POW(weight, share)
POW(age, -1)
LEAST(age, 10)
LEAST(GREATEST(weight, 0), 100)
GREATEST(LEAST(count, 100), 0)
GREATEST(born, seen, DATE '2020-06-01')
LEAST(name, colour)
age = 42
age <> 42
age < 42.5
weight >= count
name = 'Hello'
name < colour
born = '2020-03-04'
born <> seen
moment > '2020-01-01'
born = moment
age BETWEEN 1 AND 50 AND member
age NOT BETWEEN 1 AND 50
age BETWEEN count AND age + 3
-age BETWEEN -50 AND 0
colour IN ('red', 'green')
age NOT IN (1, 42)
age IN (1, 2.5)
town IN ('Ulm', NULL)
born IN ('2020-03-04', '2020-02-29')
name LIKE 'H%'
name LIKE '%_\\%%'
name NOT LIKE 'H%'
name ILIKE '%ÜNDER%'
name NOT ILIKE 'h%'
age IS NULL
town IS NOT NULL
member IS TRUE
member IS NOT TRUE
member IS NOT FALSE
NOT member
NOT age = 42 AND member
member OR age = 1 AND NOT member
age = 42 IS TRUE
member IS NULL IS FALSE
CASE WHEN age > 5 THEN 'big' ELSE 'small' END
CASE WHEN age > 5 THEN 'big' END
CASE age WHEN 42 THEN 'x' WHEN 1 THEN 'y' ELSE colour END
CASE WHEN member THEN 1 ELSE 2.5 END
CASE WHEN member THEN NULL ELSE age END
CASE WHEN member THEN 1 ELSE 2 END + 1
IF(member, age, -age)
COALESCE(age, 0)
COALESCE(NULL, weight, 0)
COALESCE(weight / NULLIF(age, 0), -1)
IFNULL(town, 'none')
NULLIF(age, 42)
NULLIF(name, '')
LOWER(name)
UPPER(name)
TRIM(name)
LTRIM(name)
RTRIM(name)
TRIM(name, 'Ho')
TRIM(LEADING 'H' FROM name)
SUBSTR(name, 2)
SUBSTR(name, 2, 3)
SUBSTR(name, -3, 2)
SUBSTR(name, 0)
LEFT(name, 2)
LEFT(name, -1)
RIGHT(name, 2)
RIGHT(name, -1)
LENGTH(name)
LENGTH(colour)
CONCAT(name, town, '!')
name || '-' || town
REPLACE(name, 'l', 'LL')
REPLACE(name, '', 'x')
STARTS_WITH(name, 'He')
REGEXP_MATCHES(name, '^[A-Z]')
REGEXP_MATCHES(name, 'l+o$|%')
REGEXP_FULL_MATCH(colour, 'r?[a-e]+[^x]*')
name ^@ colour
EXTRACT(year FROM seen)
EXTRACT(quarter FROM born)
EXTRACT(month FROM seen)
EXTRACT(week FROM seen)
EXTRACT(day FROM born)
EXTRACT(dow FROM seen)
EXTRACT(doy FROM born)
EXTRACT(hour FROM moment)
EXTRACT(minute FROM paid)
DATE_PART('year', moment)
DAYOFWEEK(born)
WEEK(born)
DATE_TRUNC('year', seen)
DATE_TRUNC('quarter', born)
DATE_TRUNC('month', born)
DATE_TRUNC('week', moment)
DATE_TRUNC('day', paid)
DATE_TRUNC('hour', paid)
DATE_TRUNC('minute', moment)
DATE_TRUNC('millisecond', moment)
DATE_TRUNC('microsecond', moment)
DATE_TRUNC('isoyear', seen)
DATE_TRUNC('isoyear', moment)
DATE_TRUNC('decade', born)
DATE_TRUNC('century', seen)
DATE_TRUNC('millennium', moment)
TIME_BUCKET(INTERVAL '2 weeks', born)
TIME_BUCKET(INTERVAL 5 DAY, seen)
TIME_BUCKET(INTERVAL '7 months', seen)
TIME_BUCKET(INTERVAL '3 quarter', moment)
TIME_BUCKET(INTERVAL 90 MINUTE, moment)
TIME_BUCKET(INTERVAL 10 DAY, born, DATE '2020-01-05')
TIME_BUCKET(INTERVAL 4 HOUR, paid, TIMESTAMP '2020-01-01 01:00:00')
TRY_STRPTIME(CAST(born AS VARCHAR), '%Y-%m-%d')
TRY_STRPTIME(STRFTIME(seen, '%d.%m.%y'), '%d.%m.%y')
TRY_STRPTIME(STRFTIME(moment, '%H:%M'), '%H:%M')
TRY_STRPTIME(STRFTIME(moment, '%B %d, %Y %H:%M:%S'), '%B %d, %Y %H:%M:%S')
TRY_STRPTIME(STRFTIME(seen, '%Y%m%d'), ['%d.%m.%Y', '%Y%m%d'])
STRPTIME(STRFTIME(born, '%b/%d/%Y'), '%b/%d/%Y')
EXTRACT(decade FROM seen)
EXTRACT(century FROM born)
EXTRACT(millennium FROM seen)
EXTRACT(isoyear FROM seen)
EXTRACT(isoyear FROM moment)
EXTRACT(yearweek FROM seen)
YEARWEEK(born)
EXTRACT(era FROM seen)
EXTRACT(epoch FROM seen)
EPOCH(moment)
EXTRACT(julian FROM seen)
EXTRACT(microsecond FROM moment)
EXTRACT(milliseconds FROM paid)
DATE_PART('decades', moment)
EXTRACT(year FROM AGE(born, seen))
EXTRACT(month FROM AGE(born, seen))
EXTRACT(day FROM AGE(born, seen))
DATE_PART('year', AGE(seen, born))
YEAR(AGE(seen, DATE '2020-02-29'))
MONTH(AGE(seen, DATE '2020-02-29'))
DAY(AGE(seen, DATE '2020-02-29'))
MAKE_DATE(2020 + ABS(age) % 5, 1 + ABS(age) % 12, 1 + ABS(age) % 28)
LPAD(name, 3, '*')
LPAD(name, 40, '0')
RPAD(name, 5, 'x')
DATE_DIFF('year', born, seen)
DATE_DIFF('quarter', born, seen)
DATE_DIFF('month', seen, born)
DATE_DIFF('week', seen, moment)
DATE_DIFF('day', born, seen)
DATE_DIFF('hour', paid, moment)
DATE_DIFF('minute', moment, born)
born - seen
born + INTERVAL '1 month'
born - INTERVAL 3 DAY
seen + INTERVAL '1' YEAR
seen + INTERVAL 2 QUARTER
moment - INTERVAL '5 hours'
born + INTERVAL 5 MINUTE
INTERVAL 1 WEEK + born
born + INTERVAL 1 DAY < seen
CAST(age AS DOUBLE)
CAST(weight AS BIGINT)
CAST(share AS INTEGER)
TRY_CAST(name AS INTEGER)
TRY_CAST(name AS DOUBLE)
TRY_CAST(name AS BOOLEAN)
CAST(paid AS DATE)
CAST(born AS TIMESTAMP)
CAST(born AS VARCHAR)
CAST(moment AS VARCHAR)
CAST(age AS VARCHAR)
CAST(member AS INTEGER)
CAST(member AS VARCHAR)
CAST(age AS BOOLEAN)
CAST(weight AS BOOLEAN)
age::VARCHAR || 'x'
-weight::BIGINT
""".strip().splitlines()
