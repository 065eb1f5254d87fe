-- Questions about the clinic of clinic.py: a title, and below it the question. A blank line parts them.
-- Those whose title begins with "sum" or "mean" add up values that may be rounded: their claims are in a record apart.

-- # counts

-- count
SELECT COUNT(*) AS n FROM visits

-- count of values
SELECT COUNT(age) AS n, COUNT(note) AS notes FROM visits

-- count of patients
SELECT COUNT(DISTINCT who) AS n FROM visits

-- count and patients
SELECT COUNT(*) AS n, COUNT(DISTINCT who) AS people FROM visits

-- count by region
SELECT region, COUNT(*) AS n FROM visits GROUP BY region

-- patients by region
SELECT region, COUNT(DISTINCT who) AS n FROM visits GROUP BY region

-- count by region and urgency
SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY region, urgent

-- count where
SELECT COUNT(*) AS n FROM visits WHERE age > 40 AND NOT urgent

-- count where or
SELECT COUNT(*) AS n FROM visits WHERE age > 90 OR region = 'north' OR code IN (2, 3)

-- count filter
SELECT COUNT(*) FILTER (WHERE urgent) AS u, COUNT(*) AS n, COUNT_IF(age >= 18) AS adults FROM visits

-- count by code where between
SELECT code, COUNT(*) AS n FROM visits WHERE age BETWEEN 20 AND 60 GROUP BY code

-- count by code narrowed
SELECT code, COUNT(*) AS n FROM visits WHERE code <> 2 GROUP BY code

-- count by code one left
SELECT code, COUNT(*) AS n FROM visits WHERE code = 2 GROUP BY code

-- count by region in
SELECT region, COUNT(*) AS n FROM visits WHERE region IN ('north', 'east') GROUP BY region

-- count by region not null
SELECT region, COUNT(*) AS n FROM visits WHERE region IS NOT NULL GROUP BY region

-- count by region null
SELECT region, COUNT(*) AS n FROM visits WHERE region IS NULL GROUP BY region

-- # periods and bands

-- count by month
SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1

-- count by day in a week
SELECT day, COUNT(*) AS n FROM visits WHERE day >= DATE '2024-03-25' AND day < DATE '2024-03-29' GROUP BY day

-- count by weekday
SELECT EXTRACT(dow FROM day) AS d, COUNT(*) AS n FROM visits GROUP BY d

-- count by hour
SELECT DATE_TRUNC('hour', at) AS h, COUNT(*) AS n FROM visits WHERE at < TIMESTAMP '2024-01-01 05:30:00' GROUP BY h

-- count by year
SELECT EXTRACT(year FROM day) AS y, EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM visits GROUP BY y, m

-- count by decade
SELECT age // 10 * 10 AS decade, COUNT(*) AS n FROM visits GROUP BY decade ORDER BY decade

-- count by decade narrowed
SELECT age // 10 AS decade, COUNT(*) AS n FROM visits WHERE age >= 35 AND age < 60 GROUP BY decade

-- count by band
SELECT WIDTH_BUCKET(cost, 0, 1000, 4) AS band, COUNT(*) AS n FROM visits GROUP BY band

-- count by case
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS kind, COUNT(*) AS n FROM visits GROUP BY kind

-- count by text functions
SELECT UPPER(region) AS r, LENGTH(region) AS l, COUNT(*) AS n FROM visits GROUP BY UPPER(region), LENGTH(region)

-- count by truth
SELECT age > 50 AS old, COUNT(*) AS n FROM visits GROUP BY old

-- count by coalesce
SELECT COALESCE(region, 'none') AS r, COUNT(*) AS n FROM visits GROUP BY r

-- count by code expression
SELECT code * 2 + CASE WHEN urgent THEN 1 ELSE 0 END AS k, COUNT(*) AS n FROM visits GROUP BY k

-- # shown groups

-- count having
SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 4 ORDER BY n DESC LIMIT 2

-- count ordered
SELECT region, code, COUNT(*) AS n FROM visits GROUP BY region, code ORDER BY n DESC, region LIMIT 5 OFFSET 1

-- count rollup
SELECT region, urgent, GROUPING(region, urgent) AS g, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region, urgent)

-- count cube
SELECT code, urgent, COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 50) AS old FROM visits GROUP BY CUBE (code, urgent)

-- count grouping sets
SELECT code, urgent, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((code), (urgent), ())

-- # noisy rows

-- share of all
SELECT region, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM visits GROUP BY region

-- share within
SELECT code, urgent, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY code) AS share FROM visits GROUP BY code, urgent

-- rank of groups
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY region

-- rank by key
SELECT code, COUNT(*) AS n, RANK() OVER (ORDER BY code DESC) AS place, ROW_NUMBER() OVER (ORDER BY code) AS row FROM visits GROUP BY code

-- rank in partitions
SELECT region, code, COUNT(*) AS n, DENSE_RANK() OVER (PARTITION BY code ORDER BY COUNT(*)) AS place FROM visits GROUP BY region, code

-- windows of counts
SELECT code, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY code) AS same, MIN(COUNT(*)) OVER () AS least, MAX(COUNT(*)) OVER () AS most, AVG(COUNT(*)) OVER () AS usual FROM visits GROUP BY code

-- outer totals
SELECT SUM(n) AS s, MAX(n) - MIN(n) AS gap, AVG(n) AS a, COUNT(*) AS k, SUM(n) FILTER (WHERE region <> 'west') AS some FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region)

-- outer groups
SELECT region, SUM(n) AS s, MAX(n) AS m FROM (SELECT region, code, COUNT(*) AS n FROM visits GROUP BY region, code) WHERE n > 1 GROUP BY region

-- outer rows
SELECT region, n * 2 AS m, n > 5 AS many, CASE WHEN n > 6 THEN 'many' ELSE 'few' END AS words FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) AS t ORDER BY n DESC LIMIT 3

-- # noisy arithmetic

-- arithmetic of counts
SELECT COUNT(*) * 2 + 1 AS x, -COUNT(*) AS minus, ABS(COUNT(*) - 60) AS off, ROUND(COUNT(*) / 7.0, 1) AS sevenths, SQRT(COUNT(*)) AS root, COUNT(*) / COUNT(DISTINCT who) AS each FROM visits

-- comparison of counts
SELECT region, COUNT(*) > 10 AS many, COUNT(*) = 5 OR COUNT(*) < 3 AS odd, GREATEST(COUNT(*), 4) AS g, LEAST(COUNT(*), 9) AS l, NULLIF(COUNT(*), 7) AS z FROM visits GROUP BY region

-- ratio of counts
SELECT code, 100.0 * COUNT(*) FILTER (WHERE urgent) / COUNT(*) AS pct FROM visits GROUP BY code

-- products of counts
SELECT code, COALESCE(COUNT(*), 3) AS l, COUNT(*) * COUNT(DISTINCT who) AS product, COUNT(*) % 4 AS rest, FLOOR(COUNT(*) / 3.0) AS thirds FROM visits GROUP BY code

-- # found groups

-- found notes
SELECT note, COUNT(*) AS n FROM visits GROUP BY note

-- found notes by code
SELECT note, code, COUNT(*) AS n, COUNT(DISTINCT who) AS people FROM visits GROUP BY note, code

-- found notes alone
SELECT DISTINCT note FROM visits

-- found notes where
SELECT note, COUNT(*) AS n FROM visits WHERE note <> 'cold' AND age > 10 GROUP BY note ORDER BY n DESC LIMIT 2

-- found numbers
SELECT pay // 1000000000 AS p, COUNT(*) AS n FROM visits GROUP BY p

-- found with a join
SELECT note, size, COUNT(*) AS n FROM visits JOIN places USING (region) GROUP BY note, size

-- # chosen values

-- distinct codes
SELECT COUNT(DISTINCT code) AS n FROM visits

-- distinct codes by region
SELECT region, COUNT(DISTINCT code) AS codes, COUNT(DISTINCT urgent) AS u FROM visits GROUP BY region

-- distinct notes
SELECT COUNT(DISTINCT note) AS n FROM visits WHERE age > 5

-- mode
SELECT MODE(region) AS usual FROM visits

-- mode by code
SELECT code, MODE(region) AS usual, MODE(urgent) AS u FROM visits GROUP BY code

-- mode beside count
SELECT MODE(code) AS usual, COUNT(*) AS n FROM visits WHERE region = 'north'

-- # quantiles

-- median
SELECT MEDIAN(age) AS m FROM visits

-- quantiles
SELECT QUANTILE_CONT(cost, 0.25) AS q, QUANTILE_CONT(cost, 0.75) AS r, MEDIAN(age) AS m FROM visits

-- quantile list
SELECT QUANTILE_CONT(age, [0.1, 0.5, 0.9]) AS q FROM visits

-- quantile discrete
SELECT QUANTILE_DISC(age, 0.9) AS q, COUNT(*) AS n FROM visits

-- median by region
SELECT region, MEDIAN(age) AS m FROM visits GROUP BY region

-- median filtered
SELECT MEDIAN(cost) FILTER (WHERE urgent) AS m, MAX(age) AS oldest, MIN(age) AS youngest FROM visits

-- median of share
SELECT MEDIAN(share) AS m FROM visits WHERE share > 0.25

-- median by note
SELECT note, MEDIAN(age) AS m FROM visits GROUP BY note

-- # sums

-- sum of ages
SELECT SUM(age) AS s FROM visits

-- sum of changes
SELECT SUM(change) AS s FROM visits

-- sum of changes by region
SELECT region, SUM(change) AS s, COUNT(*) AS n FROM visits GROUP BY region

-- sum of costs
SELECT SUM(cost) AS s FROM visits

-- sum of costs by code
SELECT code, SUM(cost) AS s, SUM(age) AS years FROM visits GROUP BY code

-- sum of shares
SELECT SUM(share) AS s FROM visits

-- sum of pay
SELECT SUM(pay) AS s FROM visits

-- sum of pay by urgency
SELECT urgent, SUM(pay) AS s, COUNT(*) AS n FROM visits GROUP BY urgent

-- # sums of expressions

-- sum filtered
SELECT SUM(age) FILTER (WHERE urgent) AS s, SUM(CASE WHEN urgent THEN age END) AS t FROM visits

-- sum of expressions
SELECT SUM(age * 2 - 50) AS a, SUM(ABS(change)) AS b, SUM(LEAST(GREATEST(change, -3), 4)) AS c, SUM(-age) AS d FROM visits

-- sum of squares
SELECT SUM(change * change) AS q, SUM(LEAST(age, 10) * change) AS p FROM visits

-- sum of dates
SELECT SUM(DATE_DIFF('day', DATE '2024-01-01', day)) AS s, SUM(EXTRACT(month FROM day)) AS m FROM visits

-- sum narrowed
SELECT SUM(age) AS s FROM visits WHERE age > 60 AND age <= 80

-- sum of quotients
SELECT SUM(LEAST(GREATEST(1 / NULLIF(change, 0), -9), 9)) AS s, SUM(SQRT(ABS(change))) AS r FROM visits

-- sum of logs
SELECT SUM(LEAST(GREATEST(LN(share), -4), 0)) AS s, SUM(ROUND(cost, 1)) AS r, SUM(FLOOR(cost / 3)) AS f, SUM(age % 7) AS m FROM visits

-- sum of casts
SELECT SUM(LEAST(GREATEST(CAST(note AS INTEGER), 0), 9)) AS s, SUM(CAST(urgent AS INTEGER)) AS u, SUM(LENGTH(region)) AS l FROM visits

-- sum in a rollup
SELECT code, SUM(age) AS s FROM visits GROUP BY ROLLUP (code)

-- sum over sum
SELECT code, SUM(change) / SUM(age) AS r, SUM(change) * 1.0 / COUNT(*) AS m FROM visits GROUP BY code

-- sum of a constant
SELECT SUM(1) AS n, SUM(2.5) AS m FROM visits

-- sum distinct groups found
SELECT note, SUM(age) AS s, AVG(age) AS a FROM visits GROUP BY note

-- # means

-- mean age
SELECT AVG(age) AS a FROM visits

-- mean age and count
SELECT AVG(age) AS a, COUNT(age) AS n, SUM(age) AS s FROM visits

-- mean change by region
SELECT region, AVG(change) AS a FROM visits GROUP BY region

-- mean cost
SELECT AVG(cost) AS a, COUNT(*) AS n FROM visits

-- mean cost by code
SELECT code, AVG(cost) AS a, AVG(share) AS b FROM visits GROUP BY code

-- mean pay
SELECT AVG(pay) AS a FROM visits

-- mean filtered
SELECT AVG(age) FILTER (WHERE urgent) AS u, AVG(age) AS a FROM visits

-- mean of a truth
SELECT region, AVG(CASE WHEN urgent THEN 1 ELSE 0 END) AS share FROM visits GROUP BY region

-- mean rounded
SELECT code, ROUND(AVG(age), 1) AS a, AVG(age) > 50 AS old, AVG(change) - AVG(age) AS gap FROM visits GROUP BY code HAVING AVG(age) > 30

-- mean in a rollup
SELECT code, AVG(age) AS a FROM visits GROUP BY ROLLUP (code)

-- # moments

-- mean variance
SELECT VAR_POP(age) AS p, VAR_SAMP(age) AS s, STDDEV(age) AS d, STDDEV_POP(age) AS e FROM visits

-- mean deviation by code
SELECT code, STDDEV(change) AS d, AVG(change) AS a FROM visits GROUP BY code

-- mean deviation of cost
SELECT STDDEV(cost) AS d, VARIANCE(share) AS v FROM visits WHERE urgent

-- mean covariance
SELECT COVAR_POP(age, change) AS p, COVAR_SAMP(age, change) AS s FROM visits

-- mean correlation
SELECT CORR(age, change) AS r FROM visits

-- mean correlation by urgency
SELECT urgent, CORR(cost, share) AS r FROM visits GROUP BY urgent

-- mean regression
SELECT REGR_SLOPE(change, age) AS b, REGR_INTERCEPT(change, age) AS a, REGR_R2(change, age) AS r, REGR_COUNT(change, age) AS n FROM visits

-- mean regression averages
SELECT REGR_AVGX(change, age) AS x, REGR_AVGY(change, age) AS y FROM visits

-- # public joins

-- joined places
SELECT size, COUNT(*) AS n FROM visits JOIN places USING (region) GROUP BY size

-- joined places left
SELECT size, COUNT(*) AS n, COUNT(DISTINCT who) AS people FROM visits LEFT JOIN places ON places.region = visits.region GROUP BY size

-- joined places where
SELECT COUNT(*) AS n FROM visits JOIN places p ON visits.region = p.region WHERE p.beds > 20 AND visits.age > 30

-- joined codes
SELECT label, COUNT(*) AS n FROM visits JOIN codes ON visits.code = codes.code GROUP BY label

-- joined codes twice
SELECT label, size, COUNT(*) AS n FROM visits JOIN codes ON visits.code = codes.code JOIN places USING (region) GROUP BY label, size

-- joined bands
SELECT label, COUNT(*) AS n FROM visits JOIN codes ON visits.age >= codes.low AND visits.age < codes.high GROUP BY label

-- sum of joined beds
SELECT SUM(beds) AS s, AVG(beds) AS a FROM visits JOIN places USING (region)

-- in public
SELECT COUNT(*) AS n FROM visits WHERE region IN (SELECT region FROM places WHERE beds > 30)

-- # private joins

-- joined stays
SELECT COUNT(*) AS n FROM visits JOIN stays USING (who)

-- joined stays by ward
SELECT ward, COUNT(*) AS n, COUNT(DISTINCT visits.who) AS people FROM visits JOIN stays ON visits.who = stays.who WHERE visits.age > 10 GROUP BY ward

-- joined stays left
SELECT ward, COUNT(*) AS n FROM visits LEFT JOIN stays USING (who) GROUP BY ward

-- joined stays left where
SELECT COUNT(*) AS n, COUNT(nights) AS k FROM visits LEFT JOIN stays USING (who) WHERE urgent AND nights IS NULL

-- joined stays on more
SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.who = s.who AND v.day >= s.since WHERE s.nights > 3

-- joined visits twice
SELECT COUNT(*) AS n FROM visits v JOIN visits w ON v.who = w.who AND v.day < w.day

-- sum of joined nights
SELECT region, SUM(nights) AS s, AVG(nights) AS a FROM visits JOIN stays USING (who) GROUP BY region

-- joined subqueries
SELECT COUNT(*) AS n FROM (SELECT who, age FROM visits WHERE age > 20) v JOIN (SELECT who, nights FROM stays) s ON v.who = s.who WHERE nights > 2 AND age < 100

-- joined per patient
SELECT k, COUNT(*) AS n FROM visits JOIN (SELECT who, LEAST(COUNT(*), 3) AS k FROM stays GROUP BY who) t ON visits.who = t.who GROUP BY k

-- # tested joins

-- patients with stays
SELECT COUNT(DISTINCT who) AS n FROM visits WHERE who IN (SELECT who FROM stays WHERE nights > 3)

-- patients without stays
SELECT COUNT(DISTINCT who) AS n FROM visits WHERE who NOT IN (SELECT who FROM stays)

-- visits with stays
SELECT region, COUNT(*) AS n FROM visits WHERE EXISTS (SELECT 1 FROM stays WHERE stays.who = visits.who AND stays.since <= visits.day) GROUP BY region

-- visits without stays
SELECT COUNT(*) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM stays s WHERE s.who = v.who AND s.ward = 'A')

-- bills
SELECT COUNT(*) AS n, COUNT(DISTINCT who) AS people FROM bills

-- sum of bills
SELECT SUM(amount) AS s FROM bills

-- union
SELECT COUNT(*) AS n FROM (SELECT day FROM visits UNION ALL SELECT since AS day FROM stays) WHERE day > DATE '2024-02-01'

-- union by kind
SELECT kind, COUNT(*) AS n FROM (SELECT 'visit' AS kind, day FROM visits UNION ALL SELECT 'stay' AS kind, since AS day FROM stays) GROUP BY kind

-- sum of a union
SELECT SUM(x) AS s FROM (SELECT change AS x FROM visits UNION ALL SELECT nights AS x FROM stays)

-- # lists and patients

-- tags
SELECT tag, COUNT(*) AS n FROM visits, UNNEST(tags) AS t(tag) GROUP BY tag

-- tags where
SELECT COUNT(*) AS n, COUNT(DISTINCT who) AS people FROM visits CROSS JOIN UNNEST(tags) AS t(tag) WHERE tag = 'new' AND age > 5

-- visits per patient
SELECT n, COUNT(*) AS people FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) AS t GROUP BY n ORDER BY n

-- mean visits per patient
SELECT AVG(n) AS a FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who)

-- many visits
SELECT COUNT(*) AS people FROM (SELECT who FROM visits GROUP BY who HAVING COUNT(*) > 2)

-- several regions
SELECT COUNT(*) AS people FROM (SELECT who FROM visits GROUP BY who HAVING COUNT(DISTINCT region) > 1 AND MAX(age) > 50)

-- # sums of patients

-- sum per patient
SELECT AVG(s) AS a, SUM(s) AS t FROM (SELECT who, SUM(change) AS s FROM visits GROUP BY who)

-- sum per patient and code
SELECT code, AVG(s) AS a FROM (SELECT who, code, SUM(age) AS s FROM visits WHERE age > 3 GROUP BY who, code) GROUP BY code

-- sum of extremes per patient
SELECT SUM(high - low) AS gap, AVG(mean) AS m FROM (SELECT who, MAX(age) AS high, MIN(age) AS low, AVG(change) AS mean FROM visits GROUP BY who)

-- truths per patient
SELECT COUNT(*) AS n FROM (SELECT BOOL_OR(urgent) AS once, BOOL_AND(urgent) AS always FROM visits GROUP BY who) WHERE once AND NOT always

-- first region per patient
SELECT first, COUNT(*) AS n FROM (SELECT who, FIRST(region ORDER BY day) AS first FROM visits GROUP BY who) GROUP BY first

-- last code per patient
SELECT last, COUNT(DISTINCT who) AS n FROM (SELECT who, LAST(code ORDER BY day, visit) AS last FROM visits GROUP BY who) GROUP BY last

-- sum of arguments per patient
SELECT SUM(a) AS a, SUM(b) AS b FROM (SELECT who, ARG_MAX(change, day) AS a, ARG_MIN(change, age) AS b FROM visits GROUP BY who)

-- sum of distinct per patient
SELECT AVG(d) AS d, SUM(e) AS e FROM (SELECT COUNT(DISTINCT region) AS d, COUNT(DISTINCT age) AS e FROM visits GROUP BY who)

-- sum per patient filtered
SELECT AVG(u) AS u, SUM(s) AS s FROM (SELECT COUNT(*) FILTER (WHERE urgent) AS u, SUM(change) FILTER (WHERE code = 1) AS s FROM visits GROUP BY who)

-- median per patient
SELECT MEDIAN(n) AS m FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who)

-- # windows

-- first visits
SELECT region, COUNT(*) AS n FROM (SELECT region, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day, visit) AS k FROM visits) WHERE k = 1 GROUP BY region

-- qualified visits
SELECT COUNT(*) AS n FROM (SELECT age FROM visits QUALIFY RANK() OVER (PARTITION BY who ORDER BY day) <= 2)

-- sum of gaps
SELECT AVG(gap) AS gap FROM (SELECT DATE_DIFF('day', LAG(day) OVER (PARTITION BY who ORDER BY day), day) AS gap FROM visits)

-- sum of running sums
SELECT SUM(s) AS s FROM (SELECT LEAST(GREATEST(SUM(change) OVER (PARTITION BY who ORDER BY day, visit), -50), 50) AS s FROM visits)

-- sum of windows
SELECT SUM(f) AS f, SUM(l) AS l, SUM(m) AS m, SUM(n) AS n FROM (SELECT FIRST_VALUE(change) OVER (PARTITION BY who ORDER BY visit) AS f, LEAD(change, 2, 0) OVER (PARTITION BY who ORDER BY visit) AS l, MAX(change) OVER (PARTITION BY who) AS m, COUNT(*) OVER (PARTITION BY who, code) AS n FROM visits)

-- sum of windowed means
SELECT SUM(a) AS a, SUM(d) AS d FROM (SELECT AVG(change) OVER (PARTITION BY who ORDER BY visit ROWS UNBOUNDED PRECEDING) AS a, DENSE_RANK() OVER (PARTITION BY who ORDER BY code) AS d FROM visits)

-- sum per patient after windows
SELECT SUM(v) AS s FROM (SELECT who, MAX(w) AS v FROM (SELECT who, COUNT(*) OVER (PARTITION BY who ORDER BY day) AS w FROM visits) GROUP BY who)

-- # conditions

-- with
WITH adults AS (SELECT *, age - 18 AS years FROM visits WHERE age >= 18), late AS (SELECT years, region FROM adults WHERE day > DATE '2024-02-15') SELECT region, COUNT(*) AS n FROM late WHERE years < 50 GROUP BY region

-- sum with
WITH adults AS (SELECT age - 18 AS years, region FROM visits WHERE age >= 18 AND age < 70) SELECT region, SUM(years) AS s FROM adults GROUP BY region

-- like
SELECT COUNT(*) AS n FROM visits WHERE note LIKE '%l%' OR region ILIKE 'N%' OR STARTS_WITH(region, 'so')

-- nulls
SELECT COUNT(*) FILTER (WHERE age IS NULL) AS a, COUNT(*) FILTER (WHERE region IS DISTINCT FROM 'north') AS r, COUNT(NULLIF(code, 2)) AS c FROM visits

-- dates
SELECT COUNT(*) AS n FROM visits WHERE day + INTERVAL 1 MONTH > DATE '2024-03-15' AND DAYNAME(day) <> 'Monday' AND EXTRACT(week FROM day) <> 5

-- no rows
SELECT region, COUNT(*) AS n FROM visits WHERE age > 200 GROUP BY region

-- distinct regions
SELECT DISTINCT region, urgent FROM visits WHERE age > 10 ORDER BY urgent

-- # functions of keys

-- keys in capitals
SELECT LOWER(region) AS r, LENGTH(region) AS l, COUNT(*) AS n FROM visits GROUP BY region

-- keys combined
SELECT region || ' ' || code AS k, CASE WHEN urgent THEN 'now' ELSE 'later' END AS t, COUNT(*) AS n FROM visits GROUP BY region, code, urgent

-- keys of months
SELECT STRFTIME(DATE_TRUNC('month', day), '%b %Y') AS month, COUNT(*) AS n FROM visits GROUP BY DATE_TRUNC('month', day) ORDER BY EXTRACT(month FROM DATE_TRUNC('month', day)) DESC

-- keys in having
SELECT code, COUNT(*) AS n FROM visits GROUP BY code HAVING code % 2 = 1 OR COUNT(*) > 20

-- keys in windows
SELECT region, code, SUM(COUNT(*)) OVER (PARTITION BY UPPER(region)) AS s, RANK() OVER (PARTITION BY region ORDER BY code) AS p FROM visits GROUP BY region, code

-- keys in a rollup
SELECT UPPER(region) AS r, code * 10 AS c, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region, code)

-- keys found
SELECT UPPER(note) AS n, LENGTH(note) AS l, COUNT(*) AS k FROM visits GROUP BY note

-- keys and counts
SELECT code + COUNT(*) AS x, COALESCE(region, 'none') AS r, COUNT(*) IS NULL AS gone, NOT COUNT(*) > 3 AS few FROM visits GROUP BY code, region

-- # further trees

-- largest groups added up
SELECT SUM(n) AS s, MAX(n) AS m, COUNT(*) AS k FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY n DESC LIMIT 2)

-- first groups added up
SELECT SUM(n) AS s, AVG(n) AS a FROM (SELECT code, COUNT(*) AS n FROM visits GROUP BY code ORDER BY code LIMIT 2 OFFSET 1)

-- groups kept and added up
SELECT urgent, SUM(n) AS s, MIN(n) AS m FROM (SELECT code, urgent, COUNT(*) AS n FROM visits GROUP BY code, urgent HAVING COUNT(*) > 3) GROUP BY urgent

-- three tables
SELECT ward, COUNT(*) AS n FROM visits v JOIN stays s ON v.who = s.who JOIN bills b ON b.who = v.who WHERE b.amount > 3 GROUP BY ward

-- tests on both sides
SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.who = s.who AND v.urgent AND s.nights > 1 WHERE v.age > 20 AND s.ward <> 'C' AND v.code < s.nights

-- left with tests on the right
SELECT COUNT(*) AS n, COUNT(s.nights) AS k FROM visits v LEFT JOIN stays s ON v.who = s.who AND s.ward = 'A' WHERE v.age > 20 AND (s.nights > 2 OR s.nights IS NULL)

-- left of a subquery
SELECT k, COUNT(*) AS n FROM visits v LEFT JOIN (SELECT who, MAX(ward) AS w, LEAST(COUNT(*), 2) AS k FROM stays WHERE nights > 4 GROUP BY who) t ON v.who = t.who GROUP BY k

-- semi join by more
SELECT code, COUNT(*) AS n FROM visits v WHERE v.who IN (SELECT who FROM stays WHERE ward = 'B') AND NOT EXISTS (SELECT 1 FROM bills b WHERE b.who = v.who AND b.amount > v.age) GROUP BY code

-- public left with a test
SELECT size, COUNT(*) AS n FROM visits LEFT JOIN places p ON visits.region = p.region AND p.beds > 20 GROUP BY size

-- public bands and pairs
SELECT label, COUNT(*) AS n FROM visits v JOIN codes c ON v.code = c.code AND v.age >= c.low AND v.age <= c.high GROUP BY label

-- per patient and region
SELECT n, COUNT(*) AS k FROM (SELECT who, region, LEAST(COUNT(*), 3) AS n FROM visits WHERE region IS NOT NULL GROUP BY who, region HAVING COUNT(*) > 0) GROUP BY n

-- extremes of dates per patient
SELECT DATE_TRUNC('month', first) AS m, COUNT(*) AS n FROM (SELECT who, MIN(day) AS first, MAX(day) AS last FROM visits GROUP BY who) WHERE last > DATE '2024-02-01' GROUP BY m

-- numbered visits
SELECT k, COUNT(*) AS n FROM (SELECT LEAST(ROW_NUMBER() OVER (PARTITION BY who, urgent ORDER BY visit DESC), 3) AS k FROM visits WHERE age > 10) GROUP BY k

-- shifted codes
SELECT code, before, COUNT(*) AS n FROM (SELECT code, LAG(code, 1) OVER (PARTITION BY who ORDER BY visit) AS before FROM visits) GROUP BY code, before

-- windows of truths
SELECT COUNT(*) FILTER (WHERE r = 1) AS a, COUNT(*) FILTER (WHERE d = 2 AND m) AS b FROM (SELECT RANK() OVER (PARTITION BY who ORDER BY code) AS r, DENSE_RANK() OVER (PARTITION BY who ORDER BY code DESC) AS d, FIRST_VALUE(urgent) OVER (PARTITION BY who ORDER BY visit) AS m FROM visits)

-- # sums of real values per patient

-- sum of costs per patient
SELECT SUM(s) AS s, AVG(a) AS a FROM (SELECT who, SUM(cost) AS s, AVG(share) AS a FROM visits GROUP BY who)

-- sum of extremes of costs
SELECT SUM(high - low) AS gap FROM (SELECT who, MAX(cost) AS high, MIN(cost) AS low FROM visits WHERE cost > 0 GROUP BY who)

-- sum of shares per patient
SELECT code, SUM(s) AS s FROM (SELECT who, code, SUM(share) AS s FROM visits GROUP BY who, code) GROUP BY code

-- sum of windows of costs
SELECT SUM(s) AS s, SUM(l) AS l FROM (SELECT SUM(cost) OVER (PARTITION BY who ORDER BY visit) AS s, LAG(share, 1, 0.5) OVER (PARTITION BY who ORDER BY visit) AS l FROM visits)

-- sum of first costs
SELECT SUM(f) AS f, COUNT(*) AS n FROM (SELECT who, FIRST(cost ORDER BY day, visit) AS f FROM visits GROUP BY who) WHERE f > 10

-- sum of pay per patient
SELECT SUM(p) AS p FROM (SELECT who, SUM(pay) AS p FROM visits GROUP BY who)

-- # further choices

-- distinct ages
SELECT COUNT(DISTINCT age) AS a, COUNT(DISTINCT region) AS r FROM visits

-- distinct days and halves
SELECT COUNT(DISTINCT day) AS d, COUNT(DISTINCT ROUND(share, 1)) AS s, COUNT(DISTINCT at) AS m FROM visits WHERE age > 20

-- distinct costs by code
SELECT code, COUNT(DISTINCT cost) AS c, COUNT(DISTINCT change) FILTER (WHERE urgent) AS u FROM visits GROUP BY code

-- mode of days
SELECT MODE(DATE_TRUNC('month', day)) AS m, MODE(age > 50) AS old FROM visits

-- quantiles and counts by code
SELECT code, QUANTILE_CONT(age, [0.25, 0.75]) AS q, MAX(change) AS m, COUNT(*) AS n FROM visits GROUP BY code
