-- Forty questions as people type them, written before joins, per-person subqueries and unknown groups were answered.
-- A title names the policy in brackets, and says where groups are not declared there.

-- 1. How many flights left each airport? [fleet]
SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin ORDER BY flights DESC;

-- 2. Which five airlines have the most late departures? [fleet]
SELECT a.name, COUNT(*) AS late
FROM flights f
JOIN airlines a ON f.carrier = a.carrier
WHERE f.dep_delay > 15
GROUP BY a.name
ORDER BY late DESC
LIMIT 5;

-- 3. What share of flights is late, by airport and carrier, where there are enough of them? [fleet]
SELECT origin, carrier, 100.0 * SUM(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) / COUNT(*) AS pct_late
FROM flights
GROUP BY origin, carrier
HAVING COUNT(*) > 100
ORDER BY origin, pct_late DESC;

-- 4. How long are short, medium and long hauls in the air? [fleet]
SELECT CASE WHEN distance < 500 THEN 'short' WHEN distance < 1500 THEN 'medium' ELSE 'long' END AS haul,
       COUNT(*) AS flights,
       AVG(air_time) AS minutes
FROM flights
GROUP BY ALL;

-- 5. How many flights were there on each date? [fleet]
SELECT CAST(time_hour AS DATE) AS date, COUNT(*) AS flights FROM flights GROUP BY 1 ORDER BY 1;

-- 6. On which day of the week are delays worst? [fleet]
SELECT DAYNAME(time_hour) AS weekday, AVG(dep_delay) AS delay FROM flights GROUP BY weekday ORDER BY delay DESC;

-- 7. What are the ten most frequent destinations? [fleet; unknown groups]
SELECT dest, COUNT(*) AS flights FROM flights GROUP BY dest ORDER BY flights DESC LIMIT 10;

-- 8. How many flights went to each airport in the Pacific time zone? [fleet]
SELECT ap.name, COUNT(*) AS flights
FROM flights AS f
JOIN airports AS ap ON f.dest = ap.faa
WHERE ap.tz = -8
GROUP BY ap.name
ORDER BY flights DESC, ap.name;

-- 9. How many planes does each carrier fly? [fleet]
SELECT carrier, COUNT(DISTINCT tailnum) AS planes FROM flights GROUP BY carrier HAVING planes >= 100 ORDER BY planes DESC, carrier;

-- 10. How many flights does a plane make on average? [fleet]
SELECT AVG(n) AS flights_per_plane FROM (SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum);

-- 11. What share of planes made ten flights or more? [fleet]
WITH per_plane AS (
    SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum
)
SELECT 100.0 * COUNT(*) FILTER (WHERE n >= 10) / COUNT(*) AS pct FROM per_plane;

-- 12. How are flights distributed over planes? [fleet]
SELECT n AS flights, COUNT(*) AS planes
FROM (SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum) AS t
GROUP BY n
ORDER BY n;

-- 13. Whose planes fly the most? [fleet; unknown groups]
SELECT p.manufacturer, COUNT(*) AS flights
FROM flights f JOIN planes p USING (tailnum)
GROUP BY p.manufacturer
ORDER BY flights DESC
LIMIT 5;

-- 14. Do delays depend on the engine? [fleet]
SELECT p.engine, COUNT(*) AS flights, AVG(f.arr_delay) AS delay
FROM flights f
INNER JOIN planes p ON f.tailnum = p.tailnum
GROUP BY p.engine
HAVING COUNT(*) > 50;

-- 15. How many flights were made by planes that are not in the register? [fleet]
SELECT COUNT(*) AS flights FROM flights WHERE tailnum NOT IN (SELECT tailnum FROM planes);

-- 16. How many seats were offered from each airport, as far as they are known? [fleet]
SELECT f.origin, SUM(p.seats) AS seats, COUNT(*) AS flights
FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum
GROUP BY f.origin
ORDER BY seats DESC;

-- 17. From which airport did each plane leave first? [fleet]
SELECT origin, COUNT(*) AS planes
FROM (
    SELECT tailnum, origin, ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY day, sched_dep_time, flight) AS k
    FROM flights
) AS ordered
WHERE k = 1
GROUP BY origin;

-- 18. How many hours lie between two departures of the same plane? [fleet]
SELECT AVG(gap) AS hours
FROM (
    SELECT DATE_DIFF('hour', LAG(time_hour) OVER (PARTITION BY tailnum ORDER BY time_hour), time_hour) AS gap
    FROM flights
) AS gaps;

-- 19. How many planes left from more than one airport? [fleet]
SELECT COUNT(*) AS planes
FROM (SELECT tailnum FROM flights GROUP BY tailnum HAVING COUNT(DISTINCT origin) > 1) AS several;

-- 20. How many planes built before 1990 still fly? [fleet]
SELECT COUNT(*) AS planes
FROM planes p
WHERE p.year < 1990 AND EXISTS (SELECT 1 FROM flights f WHERE f.tailnum = p.tailnum);

-- 21. What is the median delay of each carrier? [fleet]
SELECT carrier, MEDIAN(dep_delay) AS delay FROM flights GROUP BY carrier ORDER BY carrier;

-- 22. Nine flights in ten arrive with less than which delay, by airport? [fleet]
SELECT origin, QUANTILE_CONT(arr_delay, 0.9) AS p90 FROM flights GROUP BY origin;

-- 23. How much do times in the air vary? [fleet]
SELECT origin, AVG(air_time) AS mean, STDDEV(air_time) AS sd FROM flights GROUP BY origin;

-- 24. Do late departures arrive late? [fleet]
SELECT CORR(dep_delay, arr_delay) AS r FROM flights;

-- 25. How many destinations does each carrier serve? [fleet]
SELECT carrier, COUNT(DISTINCT dest) AS destinations FROM flights GROUP BY carrier;

-- 26. Flights by airport and carrier, with totals [fleet]
SELECT origin, carrier, COUNT(*) AS flights FROM flights GROUP BY ROLLUP (origin, carrier) ORDER BY origin, carrier;

-- 27. How many flights has the largest carrier, and how many have all? [fleet]
SELECT MAX(n) AS most, SUM(n) AS flights FROM (SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier) AS carriers;

-- 28. What share of all flights does each airport have? [fleet]
SELECT origin, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM flights GROUP BY origin;

-- 29. What does a visitor spend in a week? [restaurant]
SELECT AVG(total) AS per_visitor FROM (SELECT visitor, SUM(euros) AS total FROM visits GROUP BY visitor) AS t;

-- 30. What is spent in a minute, day by day? [restaurant]
SELECT day, SUM(euros) / SUM(minutes) AS euros_per_minute FROM visits GROUP BY day ORDER BY day;

-- 31. How many visitors of the weekend also came during the week? [restaurant]
SELECT COUNT(DISTINCT visitor) AS visitors
FROM visits
WHERE day IN (6, 7) AND visitor IN (SELECT visitor FROM visits WHERE day <= 5);

-- 32. How many visits cost 0 to 20 euros, 20 to 40 and so on? [restaurant]
SELECT euros // 20 * 20 AS from_euros, COUNT(*) AS visits FROM visits GROUP BY from_euros ORDER BY from_euros;

-- 33. How many visits begin in the morning, and how many later? [restaurant]
SELECT day,
       COUNT(*) FILTER (WHERE entered LIKE '%AM') AS morning,
       COUNT(*) FILTER (WHERE entered LIKE '%PM') AS afternoon
FROM visits
GROUP BY day;

-- 34. Do people spend more when they come again? [restaurant]
SELECT CASE WHEN visit = 1 THEN 'first' ELSE 'again' END AS which, AVG(euros) AS euros
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY visitor ORDER BY day) AS visit FROM visits) AS numbered
GROUP BY which;

-- 35. What do people earn, by education? [census]
SELECT educ, COUNT(*) AS people, AVG(income) AS income
FROM people
WHERE income > 0
GROUP BY educ
HAVING COUNT(*) >= 50
ORDER BY educ;

-- 36. How are age and sex related to being married? [census]
SELECT age // 10 * 10 AS decade, sex, COUNT(*) AS people, 100 * AVG(married) AS pct_married
FROM people
WHERE age IS NOT NULL AND sex IS NOT NULL
GROUP BY ALL
ORDER BY decade, sex;

-- 37. Who owns a home? [survey]
SELECT PUMA, SUM(CASE WHEN OWN_RENT = 1 THEN PWGTP ELSE 0 END) * 1.0 / SUM(PWGTP) AS share
FROM survey
WHERE HOUSING_TYPE = 1 AND AGEP >= 18
GROUP BY PUMA
ORDER BY share DESC;

-- 38. What is the highest income that was reported? [survey]
SELECT MAX(PINCP) AS highest FROM survey;

-- 39. How many ties are strong? [novel]
SELECT COUNT(*) FILTER (WHERE weight >= 5) AS strong, COUNT(*) AS ties, AVG(weight) AS weight FROM ties;

-- 40. How many characters have one tie, two ties and so on? [novel]
SELECT degree, COUNT(*) AS characters
FROM (
    SELECT name, COUNT(*) AS degree
    FROM (SELECT source AS name FROM ties UNION ALL SELECT target AS name FROM ties) AS ends
    GROUP BY name
) AS degrees
GROUP BY degree
ORDER BY degree;
