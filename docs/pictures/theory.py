"""Draws the pictures of the pages on definitions and theorems: one function, one picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import accumulate

import altair as alt
import numpy as np
from altair_style import INK, save

import sfumato as sf
from sfumato.publish.mwem import CellView, MwemModel, MwemRound

Row = dict[str, object]


def lines(
    data: Iterable[Row],
    x: alt.X,
    y: alt.Y,
    colour: str,
    order: list[str],
    title: str,
    *,
    points: bool = False,
) -> alt.Chart:
    """Draw one line for each kind, named at the right."""
    chart = alt.Chart(alt.Data(values=list(data)), width=520, height=280, title=title)
    marked = chart.mark_line(strokeWidth=2.5, clip=True, point=points)
    legend = alt.Color(f"{colour}:N", scale=alt.Scale(range=INK), title=None, sort=order)
    return marked.encode(x=x, y=y, color=legend)


def bars(data: Iterable[Row], x: alt.X, y: alt.Y, colour: str, order: list[str], title: str) -> alt.Chart:
    """Draw bars side by side, one colour for each kind."""
    chart = alt.Chart(alt.Data(values=list(data)), width=520, height=260, title=title)
    return chart.mark_bar().encode(
        x=x,
        y=y,
        xOffset=alt.XOffset(f"{colour}:N", sort=order),
        color=alt.Color(f"{colour}:N", scale=alt.Scale(range=INK), title=None, sort=order),
    )


def geometric(scale: float, centre: int, z: int) -> float:
    """Give the probability of z under discrete Laplace noise around a centre."""
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** abs(z - centre)


def normal(sigma: float, centre: float, z: float) -> float:
    return math.exp(-((z - centre) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))


def reconstruction() -> None:
    """The share of people whose private bit is found by least squares."""
    draw = np.random.default_rng(5)
    data = []
    for questions in (100, 200, 400):
        for error in (0, 1, 2, 4, 6, 8, 12, 16, 24):
            hits = []
            for _ in range(20):
                secret = draw.integers(0, 2, 100)
                asked = draw.integers(0, 2, (questions, 100))
                answers = asked @ secret + draw.uniform(-error, error, questions)
                hits.append(((np.linalg.lstsq(asked, answers, rcond=None)[0] > 0.5) == secret).mean())
            data.append({"e": error, "share": float(np.mean(hits)), "kind": f"{questions} questions"})
    chart = lines(
        data,
        alt.X("e:Q", title="largest error of an answer, in people"),
        alt.Y(
            "share:Q", title="people whose value is found", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0.5, 1])
        ),
        "kind",
        ["100 questions", "200 questions", "400 questions"],
        "Totals of 100 people, nearly exact: most values can be computed",
        points=True,
    )
    save(chart, "theory-reconstruction")


def databases() -> None:
    """Two histograms at distance one."""
    records = ["student", "professor", "staff"]
    kinds = {"x = (5, 2, 3)": (5, 2, 3), "y = (5, 3, 3)": (5, 3, 3)}
    data = [
        {"record": record, "people": people, "kind": kind}
        for kind, counts in kinds.items()
        for record, people in zip(records, counts, strict=True)
    ]
    chart = bars(
        data,
        alt.X("record:N", sort=records, title=None, axis=alt.Axis(labelAngle=0)),
        alt.Y("people:Q", title="people"),
        "kind",
        list(kinds),
        "Two databases as histograms: ‖x − y‖₁ = 1, one professor more",
    )
    save(chart, "theory-databases")


def mechanisms() -> None:
    """The laws of a noisy count with and without one person."""
    kinds = {"100 people": 100, "101 people": 101}
    data = [
        {"answer": z, "p": geometric(2, centre, z), "kind": kind}
        for kind, centre in kinds.items()
        for z in range(90, 112)
    ]
    chart = bars(
        data,
        alt.X("answer:O", title="answer", axis=alt.Axis(labelAngle=0, values=list(range(90, 112, 2)))),
        alt.Y("p:Q", title="probability", axis=alt.Axis(format="%")),
        "kind",
        list(kinds),
        "A count with Laplace noise of scale 2, in two neighbouring databases",
    )
    save(chart, "theory-mechanisms")


def sampling() -> None:
    """ε of a release on a secret sample, for releases of three ε, along the rate."""
    kinds = {"ε = 2": 2, "ε = 1": 1, "ε = 1/2": "1/2"}
    rates = [f"{step / 50:.2f}" for step in range(1, 51)]
    data = [
        {"rate": float(rate), "ε": sf.Curve.pure(epsilon).subsampled(rate).epsilon(0), "kind": kind}  # type: ignore[arg-type]
        for kind, epsilon in kinds.items()
        for rate in rates
    ]
    chart = lines(
        data,
        alt.X("rate:Q", title="share of the people in the sample", axis=alt.Axis(format="%")),
        alt.Y("ε:Q", title="ε of the release on the sample"),
        "kind",
        list(kinds),
        "A secret sample makes ε smaller",
    )
    save(chart, "theory-sampling")


def pure() -> None:
    """The band e^±ε around one law, and a second law within it."""
    grid = [round(-8 + 0.1 * i, 1) for i in range(171)]
    epsilon = 0.5
    p = [0.25 * math.exp(-abs(z) / 2) for z in grid]
    q = [0.25 * math.exp(-abs(z - 1) / 2) for z in grid]
    band = [
        {"z": z, "low": a * math.exp(-epsilon), "high": a * math.exp(epsilon)} for z, a in zip(grid, p, strict=True)
    ]
    both = [
        {"z": z, "density": value, "kind": kind}
        for kind, law in (("without the person", p), ("with the person", q))
        for z, value in zip(grid, law, strict=True)
    ]
    x = alt.X("z:Q", title="answer, from the count without the person")
    area = alt.Chart(alt.Data(values=band)).mark_area(opacity=0.25, color=INK[0]).encode(x=x, y="low:Q", y2="high:Q")
    laws = lines(
        both,
        x,
        alt.Y("density:Q", title="density"),
        "kind",
        ["without the person", "with the person"],
        "ε = 0.5: the second law stays within e^±ε of the first (shaded)",
    )
    save(alt.layer(area, laws, title=laws.title), "theory-pure")


def approximate() -> None:
    """The part of a normal density above e^ε times its neighbour: its area is δ."""
    sigma, epsilon = 1.5, 0.5
    grid = [round(-5 + 0.05 * i, 2) for i in range(231)]
    p = [normal(sigma, 1, z) for z in grid]
    q = [math.exp(epsilon) * normal(sigma, 0, z) for z in grid]
    delta = sf.Curve.gaussian(sigma).delta(epsilon)
    excess = [{"z": z, "low": min(a, b), "high": a} for z, a, b in zip(grid, p, q, strict=True)]
    both = [
        {"z": z, "density": value, "kind": kind}
        for kind, law in (("P, with the person", p), ("e^ε · Q, without", q))
        for z, value in zip(grid, law, strict=True)
    ]
    x = alt.X("z:Q", title="answer")
    area = alt.Chart(alt.Data(values=excess)).mark_area(opacity=0.5, color=INK[1]).encode(x=x, y="low:Q", y2="high:Q")
    laws = lines(
        both,
        x,
        alt.Y("density:Q", title="density"),
        "kind",
        ["P, with the person", "e^ε · Q, without"],
        f"Gaussian noise, σ = 1.5, ε = 0.5: the shaded area is δ = {delta:.3f}",
    )
    save(alt.layer(area, laws, title=laws.title), "theory-approximate")


def beliefs() -> None:
    """What a belief can become."""
    grid = [i / 100 for i in range(101)]
    data = [
        {"prior": p, "later": p * math.exp(e) / (1 - p + p * math.exp(e)), "kind": f"ε = {e}"}
        for e in (0, 0.5, 1, 3)
        for p in grid
    ]
    percent = alt.Axis(format="%")
    chart = lines(
        data,
        alt.X("prior:Q", title="belief before", axis=percent),
        alt.Y("later:Q", title="belief afterwards, at most", axis=percent),
        "kind",
        [f"ε = {e}" for e in (0, 0.5, 1, 3)],
        "How far the belief that one person is in the data can rise",
    )
    save(chart, "theory-beliefs")


def response() -> None:
    """The error of a count by the number of people: local noise against central noise, at ε = ln 3."""
    coins = sf.RandomizedResponse.two_coins()
    central = float(sf.calibrate(sf.Laplace, sf.Guarantee("1.0986")).error())
    data: list[Row] = []
    for n in (100, 300, 1000, 3000, 10_000, 30_000, 100_000):
        data += [
            {"n": n, "error": coins.error(reports=n), "kind": "everybody tosses coins"},
            {"n": n, "error": central, "kind": "a curator adds Laplace noise"},
        ]
    log = alt.Scale(type="log")
    chart = lines(
        data,
        alt.X("n:Q", title="people", scale=log, axis=alt.Axis(format="~s", values=[100, 1000, 10_000, 100_000])),
        alt.Y("error:Q", title="error of the count, 95 % (±)", scale=log, axis=alt.Axis(values=[1, 10, 100, 1000])),
        "kind",
        ["everybody tosses coins", "a curator adds Laplace noise"],
        "The same promise, ε = ln 3",
        points=True,
    )
    save(chart, "theory-response")


def sensitivity() -> None:
    """The error of each of k counts that one person changes by one."""
    data: list[Row] = []
    for k in (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 100):
        change = sf.Sensitivity(groups=k)
        for kind, make, delta in (
            ("Laplace, ε = 1", sf.Laplace, "0"),
            ("Gaussian, ε = 1, δ = 1e-6", sf.Gaussian, "1e-6"),
        ):
            data.append(
                {"k": k, "error": float(sf.calibrate(make, sf.Guarantee(1, delta), change).error()), "kind": kind}
            )
    log = alt.Scale(type="log")
    chart = lines(
        data,
        alt.X(
            "k:Q", title="counts that one person changes", scale=log, axis=alt.Axis(values=[1, 2, 5, 10, 20, 50, 100])
        ),
        alt.Y(
            "error:Q", title="error of each count, 95 % (±)", scale=log, axis=alt.Axis(values=[1, 3, 10, 30, 100, 300])
        ),
        "kind",
        ["Laplace, ε = 1", "Gaussian, ε = 1, δ = 1e-6"],
        "Laplace noise grows with k, Gaussian noise with √k",
        points=True,
    )
    save(chart, "theory-sensitivity")


def laplace() -> None:
    """The law of a count at three prices."""
    prices = (2, 0.5, 0.1)
    data = [
        {"z": z, "p": geometric(1 / e, 0, z), "kind": f"ε = {e:g}: ±{float(sf.Laplace(str(1 / e)).error()):.0f}"}
        for e in prices
        for z in range(-25, 26)
    ]
    chart = lines(
        data,
        alt.X("z:Q", title="noise"),
        alt.Y("p:Q", title="probability", axis=alt.Axis(format="%")),
        "kind",
        list(dict.fromkeys(str(each["kind"]) for each in data)),
        "Laplace noise for a count; the error that 95 answers in 100 keep",
    )
    save(chart, "theory-laplace")


def exponential() -> None:
    """How often each ward is chosen."""
    scores = {"ward A (95)": 95, "ward B (90)": 90, "ward C (80)": 80, "ward D (60)": 60}
    data: list[Row] = []
    for e in (0.05, 0.2, 1):
        weights = {name: math.exp(e * score / 2) for name, score in scores.items()}
        total = sum(weights.values())
        data += [{"ward": name, "p": weight / total, "kind": f"ε = {e:g}"} for name, weight in weights.items()]
    chart = bars(
        data,
        alt.X("ward:N", title=None, axis=alt.Axis(labelAngle=0)),
        alt.Y("p:Q", title="chosen", axis=alt.Axis(format="%")),
        "kind",
        ["ε = 0.05", "ε = 0.2", "ε = 1"],
        "How often each of four wards is chosen as the busiest",
    )
    save(chart, "theory-exponential")


def noisy_max() -> None:
    """How often the best of ten is found, by its lead."""
    kinds = {
        "permute-and-flip": sf.PermuteAndFlip(epsilon=1),
        "exponential mechanism": sf.Exponential(epsilon=1),
        "noisy max, Laplace": sf.NoisyMax(epsilon=1),
    }
    runs = 5_000
    data = [
        {"lead": lead, "p": sum(each.choose([lead] + [0] * 9) == 0 for _ in range(runs)) / runs, "kind": name}
        for name, each in kinds.items()
        for lead in range(0, 21, 2)
    ]
    chart = lines(
        data,
        alt.X("lead:Q", title="points that the best of ten is ahead"),
        alt.Y("p:Q", title="how often it is chosen", axis=alt.Axis(format="%")),
        "kind",
        list(kinds),
        f"Three selections at ε = 1, {runs:,} draws each",
        points=True,
    )
    save(chart, "theory-noisy-max")


def post_processing() -> None:
    """δ of a noisy count as it is, rounded to fives, and compared with a threshold."""
    reach = range(-80, 82)
    kinds: dict[str, Callable[[int], int]] = {
        "the noisy count": lambda z: z,
        "rounded to fives": lambda z: 5 * round(z / 5),
        "only whether it is above three": lambda z: int(z > 3),
    }
    data: list[Row] = []
    for kind, function in kinds.items():
        laws: list[dict[int, float]] = [{}, {}]
        for centre, law in enumerate(laws):
            for z in reach:
                law[function(z)] = law.get(function(z), 0) + geometric(2, centre, z)
        p, q = ([law[key] / sum(law.values()) for key in sorted(law)] for law in laws)
        for i in range(41):
            e = i / 80
            delta = max(sf.divergences.hockey_stick(p, q, e), sf.divergences.hockey_stick(q, p, e))
            data.append({"ε": e, "δ": delta, "kind": kind})
    chart = lines(
        data,
        alt.X("ε:Q"),
        alt.Y("δ:Q"),
        "kind",
        list(kinds),
        "What can be told from a noisy count, and from what is made of it",
    )
    save(chart, "theory-post-processing")


def basic() -> None:
    """What is left of ε = 3 after each of eight answers."""
    prices = (0.5, 0.25, 0.5, 0.25, 0.5, 0.5, 0.25, 0.25)
    left = [3 - spent for spent in accumulate(prices)]
    data = [
        {"answer": i, "ε": value, "kind": kind}
        for i, (price, rest) in enumerate(zip(prices, left, strict=True), start=1)
        for kind, value in (("left", rest), ("this answer", price))
    ]
    chart = (
        alt.Chart(
            alt.Data(values=data), width=520, height=260, title="An account of ε = 3: every answer takes its price"
        )
        .mark_bar()
        .encode(
            x=alt.X("answer:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("ε:Q", stack="zero"),
            color=alt.Color(
                "kind:N", scale=alt.Scale(domain=["this answer", "left"], range=[INK[1], INK[0]]), title=None
            ),
            order=alt.Order("kind:N"),
        )
    )
    save(chart, "theory-basic")


def advanced() -> None:
    """ε of k releases by four theorems, at δ = 1e-6."""
    each = sf.Guarantee("0.1")
    data: list[Row] = []
    for k in (1, 5, 10, 20, 40, 60, 80, 100, 150, 200):
        found = {
            "basic": 0.1 * k,
            "advanced": float(sf.theorems.advanced(each, k, "1e-6").epsilon),
            "best for any mechanism": sf.compose([(sf.Curve.pure("0.1"), k)]).epsilon("1e-6"),
            "Laplace, composed": sf.compose([(sf.Curve.laplace(10), k)]).epsilon("1e-6"),
        }
        data += [{"k": k, "ε": value, "kind": kind} for kind, value in found.items()]
    chart = lines(
        data,
        alt.X("k:Q", title="releases, each ε = 0.1"),
        alt.Y("ε:Q", title="ε of all together, at δ = 1e-6", scale=alt.Scale(domain=[0, 14])),
        "kind",
        ["basic", "advanced", "best for any mechanism", "Laplace, composed"],
        "What many small releases cost together",
    )
    save(chart, "theory-advanced")


def parallel() -> None:
    """The cost of three releases on the same and on different people."""
    regions = [sf.Guarantee("0.5"), sf.Guarantee("0.3"), sf.Guarantee("0.3")]
    costs = {
        "the same people": sf.theorems.basic(regions),
        "different people, one replaced": sf.theorems.parallel(regions, "replace"),
        "different people, one added": sf.theorems.parallel(regions, "add-remove"),
    }
    data = alt.Data(values=[{"kind": kind, "ε": float(each.epsilon)} for kind, each in costs.items()])
    chart = (
        alt.Chart(data, width=420, height=140, title="Releases of ε = 0.5, 0.3 and 0.3 together")
        .mark_bar(color=INK[0])
        .encode(x=alt.X("ε:Q"), y=alt.Y("kind:N", sort=list(costs), title=None, axis=alt.Axis(labelLimit=300)))
    )
    save(chart, "theory-parallel")


def group() -> None:
    """What a belief of 1 % can become for groups."""
    data: list[Row] = []
    for e in (0.1, 0.5, 1):
        for k in range(1, 21):
            odds = math.exp(k * e) / 99
            data.append({"k": k, "later": odds / (1 + odds), "kind": f"ε = {e:g} for one person"})
    chart = lines(
        data,
        alt.X("k:Q", title="people in the group"),
        alt.Y("later:Q", title="“in the data”: 1 % becomes at most", axis=alt.Axis(format="%")),
        "kind",
        [f"ε = {e:g} for one person" for e in (0.1, 0.5, 1)],
        "A group is protected less, the larger it is",
        points=True,
    )
    save(chart, "theory-group")


def kl() -> None:
    """The largest loss, and bounds of the mean loss."""
    data: list[Row] = []
    for i in range(1, 61):
        e = i / 40
        found = {
            "the largest loss, ε": e,
            "mean, textbook: ε(e^ε − 1)": e * math.expm1(e),
            "mean, exactly: ε·tanh(ε/2)": e * math.tanh(e / 2),
        }
        data += [{"ε": e, "loss": value, "kind": kind} for kind, value in found.items()]
    chart = lines(
        data,
        alt.X("ε:Q"),
        alt.Y("loss:Q", title="privacy loss", scale=alt.Scale(domain=[0, 1.5])),
        "kind",
        ["the largest loss, ε", "mean, textbook: ε(e^ε − 1)", "mean, exactly: ε·tanh(ε/2)"],
        "Randomised response: what one answer gives away on average",
    )
    save(chart, "theory-kl")


def largest() -> None:
    """Rényi divergences of randomised response and of Laplace and Gaussian noise, by order."""
    curves = {
        "randomised response, ε = 1": sf.Curve.randomized_response(1),
        "Laplace noise, ε = 1": sf.Curve.laplace(1),
        "Gaussian noise, σ = 3": sf.Curve.gaussian(3),
    }
    orders = [round(1.02 * 1.12**i, 3) for i in range(41)]
    data = [
        {"order": order, "loss": curve.renyi(order), "kind": kind} for kind, curve in curves.items() for order in orders
    ]
    chart = lines(
        data,
        alt.X("order:Q", title="order", scale=alt.Scale(type="log"), axis=alt.Axis(values=[1, 2, 5, 10, 20, 50, 100])),
        alt.Y("loss:Q", title="Rényi divergence", scale=alt.Scale(domain=[0, 1.5])),
        "kind",
        list(curves),
        "From the mean loss (order 1) to the largest (order ∞)",
    )
    save(chart, "theory-max")


def chernoff() -> None:
    """The tail of a fair coin's average, exactly and by the theorem."""
    data: list[Row] = []
    for m in range(10, 401, 10):
        above = sum(math.comb(m, i) for i in range(math.floor(0.6 * m + 1e-9) + 1, m + 1)) / 2**m
        data += [
            {"m": m, "p": above, "kind": "exactly"},
            {"m": m, "p": sf.theorems.chernoff_additive(m, "0.1"), "kind": "additive bound"},
            {"m": m, "p": sf.theorems.chernoff_multiplicative(m, "0.5", "0.2"), "kind": "multiplicative bound"},
        ]
    chart = lines(
        data,
        alt.X("m:Q", title="coins"),
        alt.Y("p:Q", title="probability", scale=alt.Scale(type="log", domain=[1e-5, 1]), axis=alt.Axis(format="~e")),
        "kind",
        ["exactly", "additive bound", "multiplicative bound"],
        "The chance that more than 60 % of fair coins show heads",
    )
    save(chart, "theory-chernoff")


def azuma() -> None:
    """Walks whose step depends on where they are, and the bound of Azuma."""
    draw = np.random.default_rng(3)
    steps, walks = 100, 12
    data: list[Row] = []
    for walk in range(walks):
        place = 0.0
        for i in range(steps + 1):
            data.append({"i": i, "total": place, "walk": walk})
            size = 0.5 if place < 3 else 0.25  # the past decides how far the next step may go
            place += size * draw.choice([-1, 1])
    bound = [
        {"i": i, "total": sign * math.sqrt(i * math.log(1000) / 2), "side": str(sign)}
        for i in range(steps + 1)
        for sign in (-1, 1)
    ]
    title = "Steps of at most ±½ that depend on the past; at most one in 1,000 ends above the upper line"
    x, y = alt.X("i:Q", title="step"), alt.Y("total:Q", title="sum")
    many = alt.Chart(alt.Data(values=data), width=520, height=280, title=title)
    walked = many.mark_line(color=INK[0], opacity=0.5).encode(x=x, y=y, detail="walk:N")
    edges = alt.Chart(alt.Data(values=bound)).mark_line(color=INK[1], strokeWidth=2.5).encode(x=x, y=y, detail="side:N")
    save(alt.layer(walked, edges, title=title), "theory-azuma")


def stirling() -> None:
    """The relative error of Stirling's formula."""
    data: list[Row] = []
    for n in (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 100):
        formula = math.log(2 * math.pi * n) / 2 + n * math.log(n) - n
        data += [
            {"n": n, "error": -math.expm1(formula - math.lgamma(n + 1)), "kind": "the formula is too small by"},
            {"n": n, "error": 1 / (12 * n), "kind": "1/(12n)"},
        ]
    log = alt.Scale(type="log")
    chart = lines(
        data,
        alt.X("n:Q", scale=log, axis=alt.Axis(values=[1, 2, 5, 10, 20, 50, 100])),
        alt.Y(
            "error:Q",
            title="relative error",
            scale=alt.Scale(type="log", domain=[0.0005, 0.1]),
            axis=alt.Axis(format=".1%", values=[0.001, 0.003, 0.01, 0.03, 0.1]),
        ),
        "kind",
        ["the formula is too small by", "1/(12n)"],
        "√(2πn)·(n/e)ⁿ beside n!",
        points=True,
    )
    save(chart, "theory-stirling")


def weights() -> None:
    """The worst error over all intervals by round, ten runs, at three prices."""
    truth = np.array([1, 1, 2, 5, 11, 17, 25, 30, 25, 17, 11, 5, 2, 1, 1, 1]) * 20
    n, cells = truth.sum(), len(truth)
    queries = np.array([[a <= i <= b for i in range(cells)] for a in range(cells) for b in range(a, cells)], float)
    data: list[Row] = []
    for epsilon in ("0.02", "0.1", "1"):
        worst = np.zeros(16)
        for _ in range(10):
            guess = np.full(cells, n / cells)
            for i in range(16):
                errors = np.abs(queries @ (truth - guess))
                worst[i] += errors.max() / n / 10
                query = queries[sf.Exponential(epsilon=epsilon).choose(errors.astype(int))]
                noisy = sf.Laplace(scale=1 / float(epsilon)).apply(int(query @ truth))
                guess *= np.exp(query * (noisy - query @ guess) / n)
                guess *= n / guess.sum()
        data += [{"i": i, "e": float(each), "kind": f"2 × ε = {epsilon} a round"} for i, each in enumerate(worst)]
    chart = lines(
        data,
        alt.X("i:Q", title="rounds"),
        alt.Y("e:Q", title="worst error, of all people", axis=alt.Axis(format="%")),
        "kind",
        [f"2 × ε = {e} a round" for e in ("0.02", "0.1", "1")],
        "136 questions about 3,100 people: the guess learns from a few of them",
        points=True,
    )
    save(chart, "theory-weights")


def weights_bound() -> None:
    """The proven error of multiplicative weights by the number of people, and the worst error of ten runs at each."""
    shape = np.array([1, 1, 2, 5, 11, 17, 25, 30, 25, 17, 11, 5, 2, 1, 1, 1]) / 155
    cells, runs, promise = len(shape), 10, sf.Guarantee(1, "1e-6")
    queries = np.array([[a <= i <= b for i in range(cells)] for a in range(cells) for b in range(a, cells)], float)
    data: list[Row] = []
    for error in ("0.8", "0.6", "0.4", "0.3", "0.2"):
        plan = sf.theorems.multiplicative_weights(error, "0.05", len(queries), cells, promise)
        truth = np.round(shape * plan.people)
        worst = max(_weights_error(truth, queries, plan, float(error) / 4) for _ in range(runs))
        data += [
            {"n": plan.people, "e": float(error), "kind": "proven"},
            {"n": plan.people, "e": worst, "kind": "worst of 10"},
        ]
    chart = lines(
        data,
        alt.X("n:Q", title="people", scale=alt.Scale(type="log")),
        alt.Y("e:Q", title="worst error over 136 questions", axis=alt.Axis(format="%")),
        "kind",
        ["proven", "worst of 10"],
        "Private multiplicative weights at (1, 1e-6): bound and measured error",
        points=True,
    )
    save(chart, "theory-weights-bound")


def _weights_error(truth: np.ndarray, queries: np.ndarray, plan: sf.theorems.WeightsPlan, alpha: float) -> float:  # type: ignore[type-arg]
    """Run the notes' update once, on shares of all people; it may stop where no update is needed."""
    n, epsilon = truth.sum(), plan.epsilon
    model = MwemModel.thresholded(truth.shape, int(n), plan.rounds, 2 * alpha * n)
    choose, noise = sf.Exponential(epsilon, neighbours="replace"), sf.Laplace(1 / epsilon)
    for _ in range(plan.rounds):
        query = queries[choose.choose(np.abs(queries @ (model.weights - truth)).astype(int))]
        view = CellView((0,), tuple(np.flatnonzero(query).tolist()))
        model = model.updated(MwemRound(view, (noise.apply(int(query @ truth)),)))
        if model.settled_weights is not None:
            break
    return float(np.abs(queries @ (model.fitted_weights - truth)).max() / n)


def neighbours() -> None:
    """The databases of two kinds of records, and which of them are neighbours of one."""
    data: list[Row] = []
    for a in range(6):
        for b in range(6):
            distance = abs(a - 2) + abs(b - 3)
            kind = "other databases"
            if distance == 0:
                kind = "the database (2, 3)"
            elif distance == 1:
                kind = "one person added or removed"
            elif a + b == 5 and distance == 2:
                kind = "one person replaced"
            data.append({"a": a, "b": b, "kind": kind})
    order = ["the database (2, 3)", "one person added or removed", "one person replaced", "other databases"]
    colours = alt.Scale(domain=order, range=[INK[0], INK[1], INK[2], "#d5d9de"])
    axis = alt.Axis(tickMinStep=1, grid=False)
    chart = (
        alt.Chart(alt.Data(values=data), width=300, height=300, title="Neighbours of one database, by relation")
        .mark_circle(size=260, opacity=1)
        .encode(
            x=alt.X("a:Q", title="people with +", axis=axis, scale=alt.Scale(domain=[-0.5, 5.5])),
            y=alt.Y("b:Q", title="people with −", axis=axis, scale=alt.Scale(domain=[-0.5, 5.5])),
            color=alt.Color("kind:N", scale=colours, title=None, sort=order),
        )
    )
    save(chart, "theory-neighbours")


DRAWINGS = (
    reconstruction,
    databases,
    neighbours,
    mechanisms,
    pure,
    approximate,
    beliefs,
    response,
    sensitivity,
    laplace,
    exponential,
    noisy_max,
    post_processing,
    basic,
    advanced,
    parallel,
    group,
    sampling,
    kl,
    largest,
    chernoff,
    azuma,
    stirling,
    weights,
    weights_bound,
)
