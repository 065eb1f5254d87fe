"""Draws the pictures of the documentation, or those named. Run with: .venv/bin/python docs/pictures/make.py (needs the
plot extra).
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
import sys
from fractions import Fraction
from itertools import pairwise
from tempfile import TemporaryDirectory

import altair as alt
import diagrams
import numpy as np
import pandas as pd
import theory
from altair_style import HERE, INK, rows, save

import sfumato as sf
from sfumato.curator import OnlineSession
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.estimating import MeasuredMarginal, least_squares
from sfumato.publish.marginals.planning import independent_variances, plan_gaussian

alt.data_transformers.disable_max_rows()


def curves() -> None:
    """δ against ε for one release of each kind, and for a hundred small ones together."""
    kinds = {
        "Laplace, scale 1": sf.Curve.laplace(1),
        "Gaussian, sigma 2": sf.Curve.gaussian(2),
        "100 × Laplace, scale 25": sf.compose([(sf.Curve.laplace(25), 100)]),
        "randomised response, ε = 1": sf.Curve.pure(1),
    }
    grid = [*(round(0.02 * i, 2) for i in range(101)), 0.99, 0.999, 0.9999]
    data = [{"ε": e, "δ": max(1e-9, curve.delta(e)), "release": name} for name, curve in kinds.items() for e in grid]
    chart = (
        alt.Chart(alt.Data(values=data), width=560, height=300, title="What each release leaves uncovered at every ε")
        .mark_line(strokeWidth=2.5, clip=True)
        .encode(
            x=alt.X("ε:Q", scale=alt.Scale(domain=[0, 2])),
            y=alt.Y("δ:Q", scale=alt.Scale(type="log", domain=[1e-6, 1]), axis=alt.Axis(format="~e")),
            color=alt.Color("release:N", scale=alt.Scale(range=INK), title=None, sort=list(kinds)),
        )
    )
    save(chart, "curves")


def calibration() -> None:
    """The σ that the textbook, the analytic formula and the discrete law ask for."""
    data = []
    for i in range(1, 20):
        e = round(0.05 * i, 2)
        promise = sf.Guarantee(e, "1e-6")
        discrete = float(sf.calibrate(sf.Gaussian, promise).sigma)  # type: ignore[arg-type]
        analytic = _analytic(promise)
        textbook = float(sf.Gaussian.classical(e, "1e-6").sigma)  # type: ignore[arg-type]
        data += [
            {"ε": e, "σ": textbook, "rule": "classical"},
            {"ε": e, "σ": analytic, "rule": "analytic (continuous)"},
            {"ε": e, "σ": discrete, "rule": "discrete, as drawn"},
        ]
    order = ["classical", "analytic (continuous)", "discrete, as drawn"]
    base = alt.Chart(alt.Data(values=data), width=560, height=300, title="Gaussian noise for (ε, 1e-6), sensitivity 1")
    chart = base.mark_line(strokeWidth=2.5).encode(
        x=alt.X("ε:Q", scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("σ:Q", scale=alt.Scale(type="log", domain=[3, 120])),
        color=alt.Color("rule:N", scale=alt.Scale(range=INK), title=None, sort=order),
        strokeDash=alt.StrokeDash("rule:N", scale=alt.Scale(range=[[1, 0], [1, 0], [5, 5]]), legend=None, sort=order),
    )
    save(chart, "gaussian-calibration")


def _analytic(promise: sf.Guarantee) -> float:
    low, high = 0.1, 1000.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        fits = sf.Curve.gaussian(middle).delta(promise.epsilon) <= promise.delta
        low, high = (low, middle) if fits else (middle, high)
    return high


def holes() -> None:
    """The last bit a float answer uses, in the two worlds: a float Laplace tells them apart, ours cannot."""
    rng = np.random.default_rng(7)
    count = 400_000

    def last_bits(values: np.ndarray) -> np.ndarray:
        mantissa, exponent = np.frexp(values)
        whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
        return np.where(whole == 0, 0, np.log2(np.maximum(1, whole & -whole))).astype(int) + exponent - 53

    charts = []
    ours = sf.Laplace(1, grid=2**-10)
    for title, make in (
        ("A float Laplace", lambda x: x + rng.laplace(size=count)),
        ("Laplace(1, grid=1/1024)", lambda x: ours.apply(np.full(count, x))),
    ):
        data = []
        for world, x in (("without the person", 0.0), ("with the person", 1.0)):
            bits = last_bits(make(x))
            share = np.bincount(np.clip(bits + 62, 0, 62), minlength=63) / count
            data += [{"bit": b - 62, "share": float(s), "world": world} for b, s in enumerate(share) if s > 0]
        charts.append(
            alt.Chart(alt.Data(values=data), width=330, height=240, title=title)
            .mark_bar(opacity=0.65)
            .encode(
                x=alt.X("bit:Q", title="last bit used: 2 to the power", scale=alt.Scale(domain=[-62, 2])),
                y=alt.Y("share:Q", stack=None, title="share of answers", axis=alt.Axis(format="%")),
                color=alt.Color("world:N", scale=alt.Scale(range=INK), title=None, legend=alt.Legend(orient="top")),
            )
        )
    save(alt.hconcat(*charts), "noise-holes")


def law() -> None:
    """A million exact draws beside the law they follow."""
    draws = sf.Gaussian(3).apply(np.zeros(1_000_000, np.int64))
    x = np.arange(-12, 13)
    weights = np.exp(-(x**2) / 18)
    data = rows(
        x=[int(v) for v in x],
        drawn=[float((draws == v).mean()) for v in x],
        law=[float(w) for w in weights / weights.sum()],
    )
    base = alt.Chart(data, width=560, height=260, title="A million draws of Gaussian(sigma=3), and the law")
    bars = base.mark_bar(color=INK[0], opacity=0.55).encode(
        x=alt.X("x:O", title="noise", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("drawn:Q", title="share of draws", axis=alt.Axis(format="%")),
    )
    dots = base.mark_point(color=INK[1], filled=True, size=45).encode(x="x:O", y="law:Q")
    save(bars + dots, "gaussian-law")


def selection() -> None:
    """What selections lose on the hardest scores, one best and the others alike, against what the theorem allows."""
    data = []
    x = np.linspace(0, 60, 20_001)  # the gap, times the rate
    p = np.exp(-x)
    for n in np.unique(np.geomspace(2, 1e6, 60).astype(int)):
        exponential = (x * (1 - 1 / (1 + (n - 1) * p))).max() / float(sf.Exponential(1).rate)
        flipped = (x * (1 + np.expm1(n * np.log1p(-np.minimum(p, 1 - 1e-16))) / (n * p))).max() / 0.5
        data += [
            {"n": int(n), "lost": 2 * (math.log(n) + 1), "kind": "the theorem's bound"},
            {"n": int(n), "lost": float(exponential), "kind": "Exponential"},
            {"n": int(n), "lost": float(flipped), "kind": "PermuteAndFlip"},
        ]
    measured = []
    for n in (10, 100, 1000, 10_000):
        for mechanism in (sf.Exponential(1), sf.PermuteAndFlip(1)):
            gap = round(2 * math.log(n))
            scores = np.full(n, -gap)
            scores[0] = 0
            lost = gap * float(np.mean([mechanism.choose(scores) != 0 for _ in range(1000)]))
            measured.append({"n": n, "lost": lost, "kind": type(mechanism).__name__})
    order = ["the theorem's bound", "Exponential", "PermuteAndFlip"]
    colour = alt.Color("kind:N", scale=alt.Scale(domain=order, range=[INK[1], INK[0], INK[2]]), title=None)
    axis = alt.X("n:Q", scale=alt.Scale(type="log"), title="candidates")
    title = "Expected score lost at ε = 1 on the hardest scores (lines), and measured at one gap (dots)"
    lines = alt.Chart(alt.Data(values=data), width=560, height=300, title=title).mark_line(strokeWidth=2.5)
    dots = alt.Chart(alt.Data(values=measured)).mark_point(filled=True, size=60)
    charts = [
        each.encode(x=axis, y=alt.Y("lost:Q", title="score below the best"), color=colour) for each in (lines, dots)
    ]
    save(charts[0] + charts[1], "selection-utility")


def keys() -> None:
    """The chance that a key is shown, by how many units hold it."""
    kinds = {
        "1 key per unit, optimal": sf.KeyThreshold(1, "1e-6"),
        "4 keys per unit, Laplace": sf.KeyThreshold(1, "1e-6", 4),
        "4 keys per unit, Gaussian": sf.KeyThreshold.gaussian(1, "1e-6", 4),
    }
    data = [
        {"units": n, "chance": mechanism.chance(n), "rule": name}
        for name, mechanism in kinds.items()
        for n in range(81)
    ]
    chart = (
        alt.Chart(alt.Data(values=data), width=560, height=260, title="When a key is shown, at (1, 1e-6)")
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("units:Q", title="units that hold the key"),
            y=alt.Y("chance:Q", title="chance to be shown", axis=alt.Axis(format="%")),
            color=alt.Color("rule:N", scale=alt.Scale(range=INK), title=None, sort=list(kinds)),
        )
    )
    save(chart, "key-threshold")


def answer() -> None:
    """One answer about the example, as ``Answer.plot`` draws it. Every run draws new noise."""
    with sf.open(sf.example()) as flights:
        made = flights.sql(
            """
            SELECT name AS airline, COUNT(*) AS flights, 100.0 * COUNT_IF(delay > 60) / COUNT(*) AS hour_late_percent
            FROM flights JOIN airlines USING (carrier) GROUP BY name ORDER BY flights DESC LIMIT 9
            """
        ).release(epsilon=2)
    made.plot(str(HERE / "answer.svg"))


def plots() -> None:
    """The kinds of pictures that we draw ourselves, about the example."""
    with sf.open(sf.example()) as flights:
        ask = flights.sql("SELECT day, COUNT(*) AS flights FROM flights GROUP BY day")
        ask.release(epsilon=1).plot(str(HERE / "days.svg"))
        ask = flights.sql("SELECT origin, carrier, COUNT(*) AS flights FROM flights GROUP BY origin, carrier")
        ask.release(epsilon="0.5").plot(str(HERE / "heat-map.svg"))
        bins = flights.table("flights").group_by(sf.histogram("distance", bins=25)).agg(flights=sf.count())
        bins.release(epsilon="0.3").plot(str(HERE / "histogram.svg"))
        text = "SELECT origin, COUNT(*) AS n, COUNT(delay) AS m, AVG(delay) AS late FROM flights GROUP BY origin"
        late = flights.sql(text)
        late.plot().save(HERE / "error-by-epsilon.svg")
        late.release(epsilon="0.8", sample_of="0.1").plot(str(HERE / "sampled.svg"))
        flights.budget.plot(HERE / "budget.svg")
    sf.Curve.gaussian(2).plot(HERE / "privacy-loss.svg")
    noise = sf.Gaussian(2)
    noise.distribution(0, tail="0.001").plot(noise.distribution(1, tail="0.001"), HERE / "outcome-loss.svg")
    sf.precedents(sf.Guarantee(1, "1e-6")).plot(HERE / "precedents.svg")


def time_series() -> None:
    """Loans by month, as the page about time series asks for them."""
    loans = pd.read_csv(HERE.parent / "how-to/loans.csv", parse_dates=["day"])
    bounds = {"day": ("2024-01-01", "2025-12-31")}
    with TemporaryDirectory() as folder:
        ledger = f"{folder}/library.ledger"
        library = sf.protect(
            loans, name="loans", unit="member", max_rows=6, bounds=bounds, epsilon=3, account="library", ledger=ledger
        )
        with library:
            ask = library.sql("SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS loans FROM loans GROUP BY month")
            ask.release(within=15).plot(str(HERE / "time-series.svg"))


def months() -> None:
    """The series that the analyst's tutorial ends with."""
    tutorials = HERE.parent / "tutorials"
    with TemporaryDirectory() as folder:
        for name in ("clinic.toml", "visits.csv"):
            shutil.copy(tutorials / name, folder)
        with sf.open(f"{folder}/clinic.toml") as clinic:
            text = "SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS visits FROM visits GROUP BY month"
            clinic.sql(text).release(within=28).plot(str(HERE / "months.svg"))


def _ticks(*values: float) -> alt.Axis:
    return alt.Axis(values=list(values), format="~g")


def truthfulness() -> None:
    """What the best misreport gains, and the worst costs, beside what privacy allows."""
    game = sf.games.Environment([[1, "0.9", 0], [0, "0.9", 1], ["0.9", 1, 0]], players=3)
    data = []
    for i in range(1, 61):
        e = f"{i / 20}"
        for make in (sf.Exponential, sf.PermuteAndFlip):
            found = sf.games.truthfulness(make(e, neighbours="replace"), game)
            if found.gain[0] > 0:  # for small ε truth is strictly best in this vote
                data.append({"ε": i / 20, "utility": float(found.gain[0]), "what": f"the best gains, {make.__name__}"})
            if make is sf.Exponential:
                data.append({"ε": i / 20, "utility": float(found.cost[0]), "what": "the worst costs, Exponential"})
        limits = sf.games.bounds(sf.Exponential(e, neighbours="replace").curve())
        data += [
            {"ε": i / 20, "utility": limits["total variation"], "what": "allowed: tanh(ε/4), Exponential"},
            {"ε": i / 20, "utility": limits["tanh(kε/2)"], "what": "allowed: tanh(ε/2), any ε-DP"},
            {"ε": i / 20, "utility": limits["e^(kε) − 1"], "what": "allowed: e^ε − 1, textbook"},
        ]
    order = [
        "allowed: e^ε − 1, textbook",
        "allowed: tanh(ε/2), any ε-DP",
        "allowed: tanh(ε/4), Exponential",
        "the worst costs, Exponential",
        "the best gains, PermuteAndFlip",
        "the best gains, Exponential",
    ]
    chart = (
        alt.Chart(
            alt.Data(values=data), width=520, height=300, title="Misreports, over all 27 profiles of a small vote"
        )
        .mark_line(strokeWidth=2.5, clip=True)
        .encode(
            x=alt.X("ε:Q", scale=alt.Scale(domain=[0, 3])),
            y=alt.Y("utility:Q", scale=alt.Scale(type="log", domain=[0.001, 2]), axis=_ticks(0.001, 0.01, 0.1, 1)),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=order, range=[INK[1], "#d9a441", INK[3], "#9c3848", INK[2], INK[0]]),
                title=None,
            ),
            strokeDash=alt.StrokeDash(
                "what:N", scale=alt.Scale(domain=order, range=[[5, 4]] * 3 + [[1, 0]] * 3), title=None
            ),
        )
    )
    save(chart, "games-truthfulness")


def auction() -> None:
    """The revenue of every price, and how often each is drawn."""
    rng = np.random.default_rng(4)
    bids = np.round(np.clip(rng.beta(3, 4, 400), 0, 1), 2)
    prices = [f"{i / 50:.2f}" for i in range(1, 51)]
    revenue = [float(p) * int((bids >= float(p)).sum()) for p in prices]
    curve = alt.Data(values=[{"price": float(p), "revenue": r} for p, r in zip(prices, revenue, strict=True)])
    panels = []
    for e in ("0.1", "0.5", "2"):
        proposal = sf.games.digital_goods(bids, e, prices)
        drawn = np.bincount([proposal.prices.index(proposal.release().price) for _ in range(4000)], minlength=50) / 4000
        best = max(revenue)
        shares = alt.Data(values=[{"price": float(p), "share": float(d)} for p, d in zip(prices, drawn, strict=True)])
        across = alt.X("price:Q", scale=alt.Scale(domain=[0, 1]))
        often = alt.Y("share:Q", title="share of draws", scale=alt.Scale(domain=[0, 0.6]), axis=alt.Axis(format="%"))
        bars = alt.Chart(shares, width=215, height=130, title=f"ε = {e}: at most {proposal.error():.0f} lost (95 %)")
        line = alt.Chart(curve, width=215, height=110).mark_line(color=INK[0], strokeWidth=2.5)
        panels.append(
            alt.vconcat(
                bars.mark_bar(color=INK[1], width=3.2).encode(x=across, y=often),
                line.encode(x=across, y=alt.Y("revenue:Q", scale=alt.Scale(domain=[0, best * 1.1]))),
            )
        )
    save(alt.hconcat(*panels), "games-auction")


def commitment() -> None:
    """Welfare lost per player against n: exactly, on the worst profile tried, beside the bound and its rate."""
    ring = [(i, (i + 1) % 5) for i in range(5)]
    data = []
    for name, make in (
        ("4 places on a line", lambda n: sf.games.line(4, n)),
        ("a ring of 5 places", lambda n: sf.games.graph(ring, n)),
    ):
        for n in (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000):
            mixture = sf.games.exactly_truthful(make(n))
            gap = mixture.gap
            places = len(mixture.environment.types)
            splits = [[0.5, 0.5] + [0] * (places - 2), [1] + [0] * (places - 1), [1 / places] * places]
            losses = []
            for split in splits:
                counts = np.floor(np.array(split) * n).astype(int)
                counts[0] += n - counts.sum()
                mixed, best = mixture.welfare(np.repeat(np.arange(places), counts))
                losses.append(best - mixed)
            cells = len(mixture.environment.outcomes)
            rate = math.sqrt(2 * cells * math.log(cells) / (float(gap.gamma) * n))
            data += [
                {"n": n, "loss": max(losses), "what": "measured", "where": name},
                {"n": n, "loss": mixture.loss, "what": "bound, with the q and ε chosen", "where": name},
                {"n": n, "loss": min(1.0, rate), "what": "the rate √(2|O| ln|O| / γn)", "where": name},
            ]
    order = ["the rate √(2|O| ln|O| / γn)", "bound, with the q and ε chosen", "measured"]
    panels = [
        alt.Chart(alt.Data(values=[d for d in data if d["where"] == where]), width=320, height=260, title=where)
        .mark_line(strokeWidth=2.5, point=alt.OverlayMarkDef(size=35))
        .encode(
            x=alt.X("n:Q", scale=alt.Scale(type="log"), title="players", axis=_ticks(10, 100, 1000, 10_000, 100_000)),
            y=alt.Y(
                "loss:Q",
                scale=alt.Scale(type="log", domain=[0.003, 1]),
                title="welfare lost per player",
                axis=_ticks(0.01, 0.1, 1),
            ),
            color=alt.Color("what:N", scale=alt.Scale(domain=order, range=[INK[1], INK[3], INK[0]]), title=None),
        )
        for where in ("4 places on a line", "a ring of 5 places")
    ]
    save(alt.hconcat(*panels), "games-commitment")


def equilibrium() -> None:
    """Who drives where, and what the mediator's advice leaves to be gained."""
    rng = np.random.default_rng(2)
    crowd = sf.games.routes(rng.integers(0, 3, 5000), rng.uniform(0, 0.3, (3, 12)), np.full(12, 0.6))
    settled = crowd.settle()
    advice = sf.games.equilibrium(crowd, 1, "1e-6").release()
    loads = []
    for name, profile in (("exact equilibrium", settled), ("private advice, ε = 1", advice.actions)):
        loads += [{"route": r + 1, "players": int(c), "who": name} for r, c in enumerate(crowd.loads(profile))]
    left = (
        alt.Chart(alt.Data(values=loads), width=350, height=250, title="Loads of 12 routes, 5,000 players")
        .mark_bar()
        .encode(
            x=alt.X("route:O", axis=alt.Axis(labelAngle=0)),
            xOffset="who:N",
            y="players:Q",
            color=alt.Color("who:N", scale=alt.Scale(range=INK), title=None, legend=alt.Legend(orient="top")),
        )
    )
    data = []
    for e in ("0.1", "0.2", "0.5", "1", "2", "5"):
        mediation = sf.games.equilibrium(crowd, e, "1e-6")
        advices = [mediation.release() for _ in range(5)]
        regret = float(np.mean([each.regret for each in advices]))
        data += [
            {"ε": float(e), "gain": regret + 2 * float(e), "what": "textbook: η + 2ε + δ"},
            {"ε": float(e), "gain": regret + mediation.misreport_gain, "what": "ours: η + τ"},
            {"ε": float(e), "gain": advices[0].deviation(2).gain, "what": "best deviation tried"},
        ]
    order = ["textbook: η + 2ε + δ", "ours: η + τ", "best deviation tried"]
    right = (
        alt.Chart(
            alt.Data(values=data), width=330, height=250, title="What not following can gain (η: mean of 5 boards)"
        )
        .mark_line(strokeWidth=2.5, point=alt.OverlayMarkDef(size=35))
        .encode(
            x=alt.X("ε:Q", scale=alt.Scale(type="log"), axis=_ticks(0.1, 0.2, 0.5, 1, 2, 5)),
            y=alt.Y("gain:Q", scale=alt.Scale(type="log"), title="utility", axis=_ticks(0.001, 0.01, 0.1, 1, 10)),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=order, range=[INK[1], INK[3], INK[0]]),
                title=None,
                legend=alt.Legend(orient="top"),
            ),
        )
    )
    save(alt.hconcat(left, right).resolve_scale(color="independent"), "games-equilibrium")


def unknown_groups() -> None:
    """How often each airline of the example is shown, by its planes, when nobody declared the airlines."""
    import duckdb

    source = sf.example().parent / "flights.parquet"
    counted = f"SELECT carrier, COUNT(DISTINCT tailnum) FROM '{source}' WHERE tailnum IS NOT NULL GROUP BY carrier"
    planes = dict(duckdb.sql(counted).fetchall())
    kinds = {"with one count: half of ε = 1 finds groups": "0.5", "SELECT DISTINCT: all of ε = 1 does": "1"}
    rules = {name: sf.KeyThreshold(epsilon, "1e-8", 2) for name, epsilon in kinds.items()}
    lines = [
        {"planes": n, "chance": rule.chance(n), "rule": name} for name, rule in rules.items() for n in range(1, 151)
    ]
    near: dict[int, list[str]] = {}  # airlines of nearly as many planes share a label
    for carrier, n in sorted(planes.items(), key=lambda each: each[1]):
        near.setdefault(n // 10, []).append(carrier)
    labels = {names[0]: " ".join(names) for names in near.values()}
    dots = [
        {"planes": n, "chance": rule.chance(n), "rule": name, "carrier": labels.get(carrier, "")}
        for name, rule in rules.items()
        for carrier, n in planes.items()
        if n <= 150
    ]
    ticks = alt.Axis(values=list(range(0, 151, 25)))
    axis = alt.X("planes:Q", title="planes of an airline", scale=alt.Scale(domain=[0, 150]), axis=ticks)
    chance = alt.Y("chance:Q", title="chance to be shown", axis=alt.Axis(format="%"))
    colour = alt.Color("rule:N", scale=alt.Scale(domain=list(kinds), range=[INK[0], INK[2]]), title=None)
    title = "Airlines that nobody declared, at δ = 1e-8, when a plane is in at most two groups"
    drawn = alt.Chart(alt.Data(values=lines), width=560, height=260, title=title).mark_line(strokeWidth=2.5)
    marked = alt.Chart(alt.Data(values=dots))
    named = marked.mark_text(dy=-10, align="right").encode(x=axis, y=chance, text="carrier:N", color=colour)
    points = marked.mark_point(filled=True, size=60).encode(x=axis, y=chance, color=colour)
    save(drawn.encode(x=axis, y=chance, color=colour) + points + named, "unknown-groups")


def per_person() -> None:
    """How many planes made how many flights: exactly, and as one answer shows it. Every run draws new noise."""
    per_plane = "SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum"
    with sf.open(sf.example()) as flights:
        asked = f"SELECT (n - 1) // 10 AS tens, COUNT(*) AS planes FROM ({per_plane}) GROUP BY tens ORDER BY tens"
        made = flights.sql(asked).release(epsilon="0.05")
    lengths = pd.read_parquet(sf.example().parent / "flights.parquet").groupby("tailnum").size().clip(upper=100)
    exact = ((lengths - 1) // 10).value_counts()
    names = [f"{10 * tens + 1}–{10 * tens + 10}" for tens in made.column("tens")]
    low, high = zip(*made.intervals["planes"], strict=True)
    data = rows(
        flights=names,
        noisy=list(made.column("planes")),
        low=list(low),
        high=list(high),
        exact=[int(exact.get(tens, 0)) for tens in made.column("tens")],
    )
    title = "Flights of one plane in a summer: exact (bars), and answered at ε = 0.05 (dots, with 95 % ranges)"
    base = alt.Chart(data, width=560, height=260, title=title).encode(
        x=alt.X("flights:O", sort=names, title="flights of one plane; more than 100 count as 100", axis=_level())
    )
    bars = base.mark_bar(color=INK[0], opacity=0.45).encode(y=alt.Y("exact:Q", title="planes"))
    ranges = base.mark_rule(color=INK[1], strokeWidth=2).encode(y="low:Q", y2="high:Q")
    dots = base.mark_point(color=INK[1], filled=True, size=60).encode(y="noisy:Q")
    save(bars + ranges + dots, "per-person")


def _level() -> alt.Axis:
    return alt.Axis(labelAngle=0)


DAY = {"type": "date", "bounds": ("2024-01-01", "2024-03-30")}


def joins() -> None:
    """What a limit on joined rows costs: noise that grows with it, and pairs that it leaves out."""
    rng = np.random.default_rng(3)
    visits = pd.DataFrame({"patient": np.repeat(np.arange(1000), rng.integers(1, 6, 1000))})
    claims = pd.DataFrame({"patient": np.repeat(np.arange(1000), rng.integers(0, 4, 1000))})
    pairs = visits.merge(claims, on="patient").groupby("patient").size()
    one = {"one": {"type": "integer", "bounds": (1, 1)}}
    tables = {
        name: sf.Table(name, table.assign(one=1), one, id="patient", max_rows=most)
        for name, table, most in (("visits", visits, 5), ("claims", claims, 3))
    }
    data = []
    with TemporaryDirectory() as folder:
        policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(1), tables)
        with sf.Curator(policy, f"{folder}/clinic.ledger") as clinic:
            ask = clinic.sql("SELECT COUNT(*) AS pairs FROM visits JOIN claims USING (patient)")
            for most in range(1, 16):
                noise = float(ask.limit(rows=most).error(epsilon="0.1")["pairs"])
                left_out = int((pairs - most).clip(lower=0).sum())
                data += [
                    {"limit": most, "pairs": noise, "what": "± of the noise, ε = 0.1"},
                    {"limit": most, "pairs": left_out, "what": "pairs that do not count"},
                ]
    title = f"{int(pairs.sum()):,} pairs of visit and claim of 1,000 patients, by how many of one patient count"
    chart = alt.Chart(alt.Data(values=data), width=560, height=260, title=title).mark_line(strokeWidth=2.5, point=True)
    save(
        chart.encode(
            x=alt.X("limit:O", title="joined rows of one patient that count, limit(rows=…)", axis=_level()),
            y=alt.Y("pairs:Q", title="pairs"),
            color=alt.Color("what:N", scale=alt.Scale(range=INK), title=None),
        ),
        "join-tables",
    )


def periods() -> None:
    """The noise that hides a person, a month, a week or a day of one, and what it promises for several days."""
    count, most = 90, {"person": 90, "month": 31, "week": 7, "day": 1}
    days = [dt.date(2024, 1, 1) + dt.timedelta(n) for n in range(count)]
    visits = pd.DataFrame({"patient": [n % 10 for n in range(count)], "day": days})
    data = []
    for each, limit in most.items():
        period = {} if each == "person" else {"period": each, "period_column": "day"}
        table = sf.Table("visits", visits, {"day": DAY}, id="patient", max_rows=limit)
        policy = sf.Policy(sf.PrivacyUnit("patient", **period), sf.Budget(1), {"visits": table})
        with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/days.ledger") as clinic:
            width = float(clinic.sql("SELECT COUNT(*) AS n FROM visits").error(epsilon=1)["n"])
        name = "a patient" if each == "person" else f"a patient-{each}"
        data.append({"unit": name, "width": width, "label": f"± {width:.0f}"})
    title = "Visits in 90 days, one a day, ε = 1: how wrong"
    base = alt.Chart(alt.Data(values=data), width=290, height=200, title=title).encode(
        y=alt.Y("unit:N", sort=[each["unit"] for each in data], title="the unit"),
        x=alt.X("width:Q", title="± with 95 % confidence", scale=alt.Scale(domain=[0, 320])),
    )
    left = base.mark_bar(color=INK[0], opacity=0.7) + base.mark_text(dx=5, align="left", fontSize=12).encode(
        text="label:N"
    )
    kept = [
        {"days": k, "ε": ε, "what": what}
        for k in range(1, 11)
        for ε, what in ((k, "patient-days are units"), (1, "patients are units"))
    ]
    several = alt.Chart(
        alt.Data(values=kept), width=290, height=200, title="and what is promised for several days"
    ).encode(
        x=alt.X("days:Q", title="days of one patient, together", scale=alt.Scale(domain=[1, 10])),
        y=alt.Y("ε:Q", scale=alt.Scale(domain=[0, 10])),
        color=alt.Color("what:N", scale=alt.Scale(range=INK), legend=None),
    )
    named = several.transform_filter("datum.days == 7").mark_text(align="right", dx=-12, dy=-9, fontSize=12)
    right = several.mark_line(strokeWidth=2.5) + named.encode(text="what:N")
    save(alt.hconcat(left, right), "periods")


def growing_tables() -> None:
    """What questions over one or several months have spent of the account of each."""
    days = [dt.date(2024, 1, 1) + dt.timedelta(n) for n in range(180)]
    visits = pd.DataFrame({"patient": [n % 10 for n in range(180)], "day": days})
    day = {"type": "date", "bounds": ("2024-01-01", "2024-06-30")}
    table = sf.Table("visits", visits, {"day": day}, id="patient", max_rows=4)
    unit = sf.PrivacyUnit("patient", period="month", period_column="day")
    policy = sf.Policy(unit, sf.Budget(1), {"visits": table}, per="month")
    asked = {
        "March": ("2024-03-01", "2024-03-31", 0.5),
        "March to May": ("2024-03-01", "2024-05-31", 0.25),
        "January to June": ("2024-01-01", "2024-06-30", 0.2),
        "June": ("2024-06-01", "2024-06-30", 0.6),
    }
    months = [f"2024-0{month}" for month in range(1, 7)]
    data = []
    with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/months.ledger") as clinic:
        before = dict.fromkeys(months, 1.0)
        for name, (first, last, epsilon) in asked.items():
            text = f"SELECT COUNT(*) AS n FROM visits WHERE day BETWEEN DATE '{first}' AND DATE '{last}'"
            clinic.sql(text).release(epsilon=epsilon)
            left = {month: float(clinic.standing()[month].left["pure"]) for month in months}
            data += [{"month": month, "ε": before[month] - left[month], "what": name} for month in months]
            before = left
        data += [{"month": month, "ε": before[month], "what": "left"} for month in months]
    order = [*asked, "left"]
    for each in data:
        each["order"] = order.index(each["what"])
    title = "What four questions spent of each month"
    bars = (
        alt.Chart(alt.Data(values=data), width=520, height=220, title=title)
        .mark_bar()
        .encode(
            x=alt.X("month:N", title="account", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("ε:Q", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "what:N", sort=order, title="asked about", scale=alt.Scale(domain=order, range=[*INK, "#e4e4e0"])
            ),
            order="order:O",
        )
    )
    save(bars, "growing-tables")


def builder() -> None:
    """An answer to a question that was put together in Python, as ``Answer.plot`` draws it."""
    with sf.open(sf.example()) as flights:
        late = flights.table("flights").derive(hours="delay / 60.0").join("airlines", on="carrier")
        ask = late.group_by("name").agg(flights=sf.count(), hours=sf.mean("hours")).having("flights > 5000")
        made = ask.order_by("hours DESC").head(6).release(epsilon=2)
    made.plot(str(HERE / "builder.svg"))


def degrees() -> None:
    """How many members of a club have how many ties: exactly, and as one answer shows it."""
    ties = pd.read_csv(HERE.parents[1] / "tests" / "data" / "graphs" / "karate.edges.csv")
    people = {"values": list(range(34))}
    table = sf.Table("ties", ties, {"source": people, "target": people}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("tie", every_row=True), sf.Budget(5), {"ties": table})
    with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/club.ledger") as club:
        ask = club.degrees("ties", ("source", "target"), most=8)
        noisy, width = ask.release(epsilon=2).counts, ask.error(epsilon=2)
    each = pd.concat([ties["source"], ties["target"]]).value_counts().clip(upper=8).value_counts()
    names = [*map(str, range(8)), "8 and more"]
    data = rows(
        degree=names,
        noisy=list(noisy),
        low=[count - width for count in noisy],
        high=[count + width for count in noisy],
        exact=[int(each.get(degree, 0)) for degree in range(9)],
    )
    title = "Members of a karate club by their ties: exact (bars), and answered at ε = 2 (dots, with 95 % ranges)"
    base = alt.Chart(data, width=560, height=240, title=title).encode(
        x=alt.X("degree:O", sort=names, title="ties", axis=_level())
    )
    bars = base.mark_bar(color=INK[0], opacity=0.45).encode(y=alt.Y("exact:Q", title="members"))
    ranges = base.mark_rule(color=INK[1], strokeWidth=2).encode(y="low:Q", y2="high:Q")
    dots = base.mark_point(color=INK[1], filled=True, size=60).encode(y="noisy:Q")
    save(bars + ranges + dots, "degrees")


def survival() -> None:
    """Survival in two arms of an invented trial, as one release at ε = 1 shows it."""
    draw = np.random.default_rng(7)
    arm = draw.choice(["control", "treated"], 2000)
    death, left = draw.exponential(np.where(arm == "control", 20, 32)), draw.uniform(6, 36, 2000)
    months = np.minimum(death, left).astype(int)
    trial = pd.DataFrame({"patient": range(2000), "arm": arm, "months": months, "died": death < left})
    columns = {
        "arm": {"values": ["control", "treated"]},
        "months": {"type": "integer", "bounds": [0, 35]},
        "died": {"type": "boolean"},
    }
    table = sf.Table("patients", trial, columns, id="patient", max_rows=1)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(5), {"patients": table})
    with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/trial.ledger") as clinic:
        ask = clinic.survival("patients", time="months", event="died", by="arm", every=3)
        ask.release(epsilon=1).plot(str(HERE / "survival.svg"))


def sessions() -> None:
    """How far from the threshold every answer is right, by the number of questions: in a session, and one by one."""
    counts = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
    named = {
        f"session, up to {c} above": [sf.AboveThreshold(1, 0, c, monotone=True).error(k) for k in counts]
        for c in (1, 5)
    }
    named["every count bought by itself"] = [float(sf.Laplace(k).error("0.95", k)) for k in counts]
    flat = [(count, far, name) for name, each in named.items() for count, far in zip(counts, each, strict=True)]
    questions, distances, names = zip(*flat, strict=True)
    data = rows(questions=list(questions), distance=list(distances), asked=list(names))
    title = "Counts of units further than this from the threshold are all answered rightly (ε = 1 in all, 95 %)"
    chart = (
        alt.Chart(data, width=560, height=260, title=title)
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("questions:Q", scale=alt.Scale(type="log"), title="questions"),
            y=alt.Y("distance:Q", scale=alt.Scale(type="log"), title="distance from the threshold"),
            color=alt.Color("asked:N", sort=list(named), scale=alt.Scale(range=list(INK[:3])), title=None),
        )
    )
    save(chart, "sessions")


def spread() -> None:
    """Half-widths of a mean and of a standard deviation, as the weight of the second grows."""
    cost = {"cost": {"type": "real", "bounds": (0, 5000)}}
    table = sf.Table("visits", pd.DataFrame({"patient": [1], "cost": [1.0]}), cost, id="patient", max_rows=1)
    with TemporaryDirectory() as folder:
        policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(10), {"visits": table})
        with sf.Curator(policy, f"{folder}/ledger") as clinic:
            ask = clinic.sql("SELECT AVG(cost) AS mean, STDDEV(cost) AS sd FROM visits")
            weights = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32]
            found = {each: ask.error(epsilon=1, weights={"sd": each}) for each in weights}
    named = {"AVG(cost)": "mean", "STDDEV(cost)": "sd"}
    flat = [(weight, found[weight][name][10_000], shown) for shown, name in named.items() for weight in weights]
    given, widths, names = zip(*flat, strict=True)
    data = rows(weight=list(given), width=list(widths), asked=list(names))
    title = "Half-widths in a group of 10,000 rows, by the weight of the standard deviation (ε = 1, 95 %)"
    chart = (
        alt.Chart(data, width=560, height=240, title=title)
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("weight:Q", scale=alt.Scale(type="log", base=2), title="weight of STDDEV(cost)"),
            y=alt.Y("width:Q", title="half-width"),
            color=alt.Color("asked:N", sort=list(named), scale=alt.Scale(range=list(INK[:2])), title=None),
        )
    )
    save(chart, "spread")


def workloads() -> None:
    """The ε of many counts, each as accurate as at ε = 0.01 by itself: one by one, and together at δ = 1e-6."""
    counts = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    sigma = Fraction(sf.Laplace(100).error("0.95")) / Fraction("1.96")
    gaussian = sf.Gaussian(sigma).curve()
    named = {
        "one by one": [count / 100 for count in counts],
        "together, at δ = 1e-6": [sf.compose([(gaussian, count)]).epsilon(1e-6) for count in counts],
    }
    flat = [(count, epsilon, name) for name, each in named.items() for count, epsilon in zip(counts, each, strict=True)]
    questions, epsilons, names = zip(*flat, strict=True)
    data = rows(questions=list(questions), epsilon=list(epsilons), asked=list(names))
    chart = (
        alt.Chart(data, width=560, height=260, title="What many counts cost, each within ±300 (95 %)")
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("questions:Q", scale=alt.Scale(type="log"), title="counts"),
            y=alt.Y("epsilon:Q", scale=alt.Scale(type="log"), title="ε"),
            color=alt.Color("asked:N", sort=list(named), scale=alt.Scale(range=[INK[1], INK[0]]), title=None),
        )
    )
    save(chart, "workloads")


def running() -> None:
    """The error of each day's running count by factorisation, and a year of visits with its band."""
    from sfumato.mechanisms.factorisations import Factorisation

    made = {
        "binary tree, by least squares": Factorisation("tree", 365, 10, 2),
        "square root, equal columns": Factorisation("square root", 365, 10),
        "ours: optimal": Factorisation("optimised", 365, 10),
    }
    levels = 10
    days = range(1, 366)
    errors = {"binary tree, by its blocks": [math.sqrt(levels * day.bit_count()) for day in days]}
    for name, each in made.items():
        moved = math.sqrt((each.weights.astype(float) ** 2).sum(axis=0).max())
        errors[name] = (each.decoder_row_norms * moved).tolist()
    data = [
        {"day": day, "error": e, "by": name}
        for name, found in errors.items()
        for day, e in zip(days, found, strict=True)
    ]
    left = (
        alt.Chart(alt.Data(values=data), width=380, height=280, title="Error of each day at one price, 365 days")
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("day:Q", scale=alt.Scale(domain=[1, 365]), title="day"),
            y=alt.Y("error:Q", title="standard error, in noises of a single count"),
            color=alt.Color(
                "by:N", scale=alt.Scale(range=[INK[3], INK[2], INK[0], INK[1]]), sort=list(errors), title=None
            ).legend(orient="bottom", columns=2),
        )
    )
    save(left | _year(), "running-counts")


def _year() -> alt.LayerChart:
    """A year of visits, fewer on Sundays and more in winter, as an answer shows it."""
    first = dt.date(2024, 1, 1)
    each = [round(40 + 15 * math.cos(day / 58) - 25 * (day % 7 == 6)) for day in range(366)]
    day = [first + dt.timedelta(days=at) for at, count in enumerate(each) for _ in range(count)]
    visits = pd.DataFrame({"patient": [number % 4_000 for number in range(len(day))], "day": day})
    columns = {"day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]}}
    table = sf.Table("visits", visits, columns, id="patient", max_rows=4, max_rows_per_group=1)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(5, "1e-6"), {"visits": table})
    with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/clinic.ledger") as clinic:
        found = clinic.running("SELECT day, COUNT(*) AS visits FROM visits GROUP BY day").release(rho="0.005")
    data = rows(
        day=[str(row[0]) for row in found.rows],
        noisy=[row[1] for row in found.rows],
        low=[low for low, _ in found.intervals["visits"]],  # type: ignore[misc]
        high=[high for _, high in found.intervals["visits"]],  # type: ignore[misc]
        exact=np.cumsum(each).tolist(),
    )
    base = alt.Chart(data, width=380, height=280, title="Visits so far, at ρ = 0.005: exact (line), answered (band)")
    across = alt.X("day:T", title=None)
    band = base.mark_area(color=INK[1], opacity=0.35, clip=True).encode(
        x=across, y=alt.Y("low:Q", title="visits so far", scale=alt.Scale(domainMin=0)), y2="high:Q"
    )
    return band + base.mark_line(color=INK[0], strokeWidth=1.2).encode(x=across, y="exact:Q")


def private_bounds() -> None:
    """What a visit cost, on the steps of the ladder: exactly, as counted with noise, and the range that is chosen."""
    cost = np.random.default_rng(5).lognormal(3, 1, 1000)
    table = sf.Table(
        "visits", pd.DataFrame({"who": range(1000), "cost": cost}), {"cost": {"type": "real"}}, id="who", max_rows=1
    )
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(5), {"visits": table})
    with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/clinic.ledger") as clinic:
        ask = clinic.bounds("visits", "cost")
        found, ladder = ask.release(epsilon="0.1"), ask.ladder
    ends = [ladder.bounds_of((place, place)) for place in range(len(ladder))]
    shown = [place for place, (low, high) in enumerate(ends) if low > 0 and 0.001 < high <= 100_000]
    names = [f"to {float(ends[place][1]):,g}" for place in shown]
    data = rows(
        step=names,
        noisy=[found.steps.counts[place] for place in shown],
        exact=[int(((cost > float(ends[place][0])) & (cost <= float(ends[place][1]))).sum()) for place in shown],
        chosen=[found.steps.first <= place <= found.steps.last for place in shown],
    )
    low, high = (f"{float(each):g}" for each in found.bounds)
    title = (
        f"1,000 patients by the cost of a visit: exact (bars), and counted at ε = 0.1 (dots); found: {low} to {high}"
    )
    base = alt.Chart(data, width=640, height=240, title=title).encode(
        x=alt.X("step:O", sort=names, title="steps of the ladder", axis=alt.Axis(labelAngle=-50))
    )
    bars = base.mark_bar(color=INK[0], opacity=0.45).encode(y=alt.Y("exact:Q", title="patients"))
    colours = alt.Color(
        "chosen:N",
        scale=alt.Scale(domain=[True, False], range=[INK[1], "#b0b0b0"]),
        legend=alt.Legend(title=None, labelExpr="datum.label == 'true' ? 'inside the range' : 'outside'"),
    )
    dots = base.mark_point(filled=True, size=60).encode(y="noisy:Q", color=colours)
    save(bars + dots, "private-bounds")


def medians() -> None:
    """Quantiles of the delay as one answer shows them, with ranges that were bought, over the exact ones."""
    shares = [0.1, 0.25, 0.5, 0.75, 0.9]
    with sf.open(sf.example()) as flights:
        asked = flights.table("flights").agg(q=sf.quantiles("delay", shares)).limit(rows=20)
        made = asked.release(epsilon=1, range="value")
    delays = pd.read_parquet(sf.example().parent / "flights.parquet")["delay"].dropna().clip(-30, 180)
    percent = np.arange(1, 100)
    exact = rows(share=percent.tolist(), delay=np.quantile(delays, percent / 100).tolist())
    ranges = [made.intervals[name][0] or (0.0, 0.0) for name in made.columns]
    dots = rows(
        share=[100 * each for each in shares],
        delay=[float(each) for each in made.rows[0]],
        low=[low for low, _ in ranges],
        high=[high for _, high in ranges],
    )
    across = alt.X("share:Q", title="share of flights with less delay, in %", scale=alt.Scale(domain=[0, 100]))
    up = alt.Y("delay:Q", title="minutes")
    title = (
        "Delays of flights: exact quantiles (line), five released at ε = 1, of 20 flights of a plane, and their ranges"
    )
    line = alt.Chart(exact, width=620, height=280, title=title).mark_line(color=INK[0], strokeWidth=2)
    base = alt.Chart(dots)
    spans = base.mark_rule(color=INK[1], strokeWidth=3, opacity=0.6).encode(x=across, y="low:Q", y2="high:Q")
    points = base.mark_point(filled=True, size=70, color=INK[1], opacity=1).encode(x=across, y=up)
    save(line.encode(x=across, y=up) + spans + points, "medians")


def surveys() -> None:
    """The standard error of a count when four questions of five answers are split or sampled, at every price."""
    questions = {name: ["a", "b", "c", "d"] for name in ("first", "second", "third", "fourth")}
    data = []
    for step in range(1, 49):
        epsilon = round(0.25 * step, 2)
        for way, split in (("split: everybody answers all", True), ("sampled: each answers one", False)):
            form = sf.collect(questions, epsilon, split=split)
            data.append({"ε": epsilon, "count": form.error(1000)["first"], "way": way})
    chart = (
        alt.Chart(
            alt.Data(values=data),
            width=560,
            height=280,
            title="Half-width of a count among 1,000 respondents: four questions of five answers",
        )
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("ε:Q", scale=alt.Scale(domain=[0, 12])),
            y=alt.Y("count:Q", title="± respondents, at 95 %", scale=alt.Scale(type="log")),
            color=alt.Color("way:N", scale=alt.Scale(range=INK), title=None),
        )
    )
    save(chart, "surveys")


PEOPLE: dict[str, dict[str, object]] = {
    "AGEP": {"type": "integer", "bounds": (0, 99), "bins": [0, 15, 25, 35, 45, 55, 65, 75, 99]},
    "SEX": {"values": [1, 2]},
    "MSP": {"values": list("N123456")},
    "PUMA": {"values": ["25-00503", "25-00703", "25-01000", "25-01300", "25-02800"]},
    "EDU": {"values": ["N", *map(str, range(1, 13))]},
}
"""Of 2,494 people of Massachusetts: how their columns are cut into cells."""
SOURCE = HERE.parent.parent / "tests/data/nist_ace/ma2019.csv"


def _people(folder: str) -> sf.Curator:
    table = sf.Table("people", SOURCE, PEOPLE, id="row", impossible=("AGEP < 15 AND MSP <> 'N'",))
    unit = sf.PrivacyUnit("person", every_row=True)
    return sf.open(sf.Policy(unit, sf.Budget(3, "1e-6"), {"people": table}), ledger=f"{folder}/people.ledger")


def synopsis() -> None:
    """Ranges of many questions to one synopsis against the truth, by their basis."""
    frame = pd.read_csv(SOURCE, dtype={"MSP": str, "EDU": str})
    with TemporaryDirectory() as folder, _people(folder) as curator:
        made = curator.marginals("people", 2).release(epsilon=1, delta="1e-9")
    ages = (0, 15, 25, 35, 45, 55, 65, 75)
    kinds = {
        "measured: age × sex, sex × marital status": [
            *(f"AGEP >= {low} AND AGEP < {high} AND SEX = {sex}" for low, high in pairwise(ages) for sex in (1, 2)),
            *(f"MSP = '{status}' AND SEX = {sex}" for status in "N123456" for sex in (1, 2)),
            *(f"AGEP >= 15 AND SEX = {sex}" for sex in (1, 2)),
        ],
        "bounded: three columns, two were published together": [
            *(f"AGEP >= {age} AND SEX = {sex} AND MSP = '1'" for age in (25, 45, 65) for sex in (1, 2)),
            *(f"AGEP < {age} AND SEX = {sex} AND MSP = '6'" for age in (25, 35, 55) for sex in (1, 2)),
        ],
        "bounded: the question cuts a bin of ages": [
            *(f"AGEP >= {age} AND SEX = {sex}" for age in (18, 30, 40, 60) for sex in (1, 2)),
        ],
    }
    data = []
    for kind, tests in kinds.items():
        for test in tests:
            found = made.sql(f"SELECT COUNT(*) AS n FROM people WHERE {test}")
            low, high = found.intervals["n"][0] or (0.0, 0.0)
            python = test.replace(" AND ", " & ").replace(" = ", " == ")
            truth = len(frame.query(python))
            data.append({"basis": kind, "truth": truth, "n": float(found.rows[0][0]), "low": low, "high": high})
    across = alt.X("truth:Q", title="exact count", axis=alt.Axis(tickCount=7))
    base = alt.Chart(alt.Data(values=data))
    up = alt.Y("n:Q", title="answer, with its range")
    spans = base.mark_rule(strokeWidth=2.5, opacity=0.55).encode(x=across, y="low:Q", y2="high:Q", color="basis:N")
    shades = alt.Color(
        "basis:N",
        scale=alt.Scale(range=INK[:3], domain=list(kinds)),
        legend=alt.Legend(title=None, orient="bottom", columns=1),
    )
    points = base.mark_point(filled=True, size=45, opacity=1).encode(x=across, y=up, color=shades)
    line = alt.Chart(rows(truth=[0, 1200], n=[0, 1200])).mark_line(color="#999999", strokeDash=[4, 4])
    title = "Questions to one synopsis of 2,494 people (ε = 1, δ = 1e-9): measured and bounded, against the truth"
    chart = (line.encode(x=across, y=up) + spans + points).properties(width=560, height=330, title=title)
    save(chart, "synopsis")


def residuals() -> None:
    """The error of a cell of each marginal under four plans at one price."""
    with TemporaryDirectory() as folder, _people(folder) as curator:
        proposal = curator.marginals("people", 2)
    own, work = proposal.attributes, proposal.workload
    sizes = [each.size for each in own]
    equal = [float(len(work.sets))] * len(work.sets)
    best = independent_variances(work, own, 1, "0.5", "total").tolist()
    plan = plan_gaussian(work, own)
    plans = {
        "noise of its own, the same for all": equal,
        "the same, after least squares": _combined(work.sets, own, equal),
        "the best noise of its own, after least squares": _combined(work.sets, own, best),
        "residual blocks": [float(plan.cell_variances(each).reshape(-1)[0]) for each in work.sets],
    }
    cells = [math.prod(sizes[place] for place in each) for each in work.sets]
    names = [f"{' × '.join(proposal.sets[i])}, {cells[i]} cells" for i in range(len(cells))]
    order = sorted(range(len(cells)), key=lambda index: cells[index])
    data = [
        {"marginal": names[index], "deviation": math.sqrt(variances[index]), "plan": name}
        for name, variances in plans.items()
        for index in order
    ]
    chart = (
        alt.Chart(alt.Data(values=data), width=480, height=300, title="Noise of a cell of each marginal at ρ = 1/2")
        .mark_point(filled=True, size=80, opacity=1)
        .encode(
            x=alt.X("deviation:Q", title="standard deviation, in rows", scale=alt.Scale(zero=True)),
            y=alt.Y("marginal:N", sort=[names[index] for index in order], title=None, axis=alt.Axis(labelLimit=260)),
            color=alt.Color(
                "plan:N",
                sort=list(plans),
                scale=alt.Scale(range=[INK[3], INK[2], INK[0], INK[1]], domain=list(plans)),
                legend=alt.Legend(title=None, orient="bottom", columns=2),
            ),
        )
    )
    save(chart, "residuals")


INCOME = [0, 15_000, 30_000, 50_000, 75_000, 120_000, 400_000]
AGES = [0, 5, 15, 18, 25, 35, 45, 55, 65, 75, 99]
SYNTHETIC = {
    **PEOPLE,
    "AGEP": {"type": "integer", "bounds": [0, 99], "bins": AGES},
    "OWN_RENT": {"values": [0, 1, 2]},
    "PINCP": {"type": "real", "bounds": [0, 400_000], "grid": 100, "bins": INCOME, "spikes": [0]},
}
"""The same people, with their incomes: nothing, or a range."""


def _synthetic(epsilon: float) -> tuple[sf.Synthetic, pd.DataFrame]:
    """A model of these people, and the people as their policy cuts them."""
    frame = pd.read_csv(SOURCE, dtype={"MSP": str, "EDU": str})[list(SYNTHETIC)]
    frame["PINCP"] = pd.to_numeric(frame["PINCP"], errors="coerce").clip(0, 400_000)
    table = sf.Table("people", SOURCE, SYNTHETIC, id="row", impossible=("AGEP < 15 AND MSP <> 'N'",))
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(30, "1e-6"), {"people": table})
    with TemporaryDirectory() as folder, sf.open(policy, ledger=f"{folder}/people.ledger") as curator:
        return curator.synthesize("people").release(epsilon=epsilon, delta="1e-9"), frame


def synthetic() -> None:
    """Incomes by marital status, of the people and of rows that were drawn."""
    made, people = _synthetic(1)
    drawn = made.to_pandas()
    names = ["none", *(f"{low // 1000}–{high // 1000}k" for low, high in pairwise(INCOME)), "missing"]
    who = {"N": "under 15", "1": "married", "6": "never married"}
    data = []
    for kind, frame in {"the people": people, "drawn rows": drawn}.items():
        cells = np.digitize(frame["PINCP"].astype(float), INCOME[1:-1]) + 1
        cells = np.where(frame["PINCP"].isna(), len(names) - 1, np.where(frame["PINCP"] == 0, 0, cells))
        for status, told in who.items():
            counts = np.bincount(cells[(frame["MSP"] == status).to_numpy(bool)], minlength=len(names))
            data += [
                {"rows": kind, "status": told, "income": n, "count": int(c)} for n, c in zip(names, counts, strict=True)
            ]
    chart = (
        alt.Chart(alt.Data(values=data), width=200, height=200)
        .mark_bar()
        .encode(
            x=alt.X("income:N", sort=names, title="income", axis=alt.Axis(labelAngle=-60)),
            xOffset=alt.XOffset("rows:N", sort=["the people", "drawn rows"]),
            y=alt.Y("count:Q", title="rows"),
            color=alt.Color(
                "rows:N",
                scale=alt.Scale(domain=["the people", "drawn rows"], range=["#b8b8b8", INK[0]]),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            column=alt.Column("status:N", sort=list(who.values()), title=None, header=alt.Header(labelFontSize=13)),
        )
        .properties(title="2,494 people, and as many rows drawn at ε = 1, δ = 1e-9")
    )
    save(chart, "synthetic")


def rows_or_synopsis() -> None:
    """The same questions counted over drawn rows, and asked of the model."""
    made, people = _synthetic(3)
    drawn = made.to_pandas()
    tests = [f"AGEP >= {low} and AGEP < {high} and SEX == {sex}" for low, high in pairwise(AGES[3:]) for sex in (1, 2)]
    tests += [f"MSP == '{status}' and OWN_RENT == {own}" for status in "456" for own in (1, 2)]
    tests += [f"EDU == '{level}' and PINCP == 0" for level in (5, 7, 9)]
    tests += [f"PUMA == '{area}' and MSP == '1' and SEX == 1" for area in PEOPLE["PUMA"]["values"]]
    data = []
    for test in tests:
        found = made.sql(f"SELECT COUNT(*) AS n FROM people WHERE {test.replace('==', '=').replace(' and ', ' AND ')}")
        low, high = found.intervals["n"][0] or (0.0, 0.0)
        data.append({"truth": len(people.query(test)), "rows": len(drawn.query(test)), "low": low, "high": high,
                     "basis": f"range of the model: {found.basis['n'][0]}"})  # fmt: skip
    across = alt.X("truth:Q", title="exact count", axis=alt.Axis(tickCount=8))
    base = alt.Chart(alt.Data(values=data))
    shades = alt.Color("basis:N", scale=alt.Scale(range=INK[:2]), legend=alt.Legend(title=None, orient="bottom"))
    spans = base.mark_rule(strokeWidth=3, opacity=0.6).encode(
        x=across, y=alt.Y("low:Q", title="answer"), y2="high:Q", color=shades
    )
    points = base.mark_point(filled=True, size=40, color="#333333", opacity=1).encode(x=across, y="rows:Q")
    line = alt.Chart(rows(truth=[0, 380], rows=[0, 380])).mark_line(color="#999999", strokeDash=[4, 4])
    title = "Counts over drawn rows (points) say nothing of their error; the model's ranges do"
    chart = (line.encode(x=across, y="rows:Q") + spans + points).properties(width=560, height=330, title=title)
    save(chart, "rows-or-synopsis")


def rare_rows() -> None:
    """How many drawn rows there are where so many people are, cell by cell of three columns."""
    made, people = _synthetic(1)
    drawn = made.to_pandas()
    keys = ["PUMA", "EDU", "MSP"]
    truth, found = (frame.groupby(keys, observed=True).size() for frame in (people, drawn))
    whole = pd.MultiIndex.from_product([SYNTHETIC[key]["values"] for key in keys])  # type: ignore[index]
    both = pd.DataFrame({"truth": truth.reindex(whole, fill_value=0), "drawn": found.reindex(whole, fill_value=0)})
    ends = [(0, 0), (1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 999)]
    groups = dict(zip(["nobody", "1 person", "2", "3–5", "6–10", "11–20", "over 20"], ends, strict=True))
    kinds = ["none", "1 or 2", "3 or more"]
    data = []
    for name, (low, high) in groups.items():
        own = both[both["truth"].raise_if_pending(low, high)]["drawn"]
        shares = [(own == 0).mean(), own.raise_if_pending(1, 2).mean(), (own > 2).mean()]
        data += [{"people": name, "drawn": kind, "share": float(x)} for kind, x in zip(kinds, shares, strict=True)]
    across = alt.X(
        "people:N",
        sort=list(groups),
        title="people in a cell of area × education × marital status",
        axis=alt.Axis(labelAngle=0),
    )
    shades = alt.Color(
        "drawn:N",
        sort=kinds,
        scale=alt.Scale(range=["#d8d8d8", INK[1], INK[0]], domain=kinds),
        legend=alt.Legend(title="drawn rows there"),
    )
    up = alt.Y("share:Q", title="share of such cells", axis=alt.Axis(format="%"))
    title = "A drawn row in a rare cell is chance: cells of nobody have some, cells of one may have none"
    chart = alt.Chart(alt.Data(values=data), width=480, height=260, title=title).mark_bar()
    save(chart.encode(x=across, y=up, color=shades), "rare-rows")


def aim_rounds() -> None:
    """What each round paid for its choice and its measurement, and what the model gained."""
    made, _ = _synthetic(4)
    names = ["number of rows", *(" × ".join(each.columns) for each in made.rounds)]
    order = [f"{number}. {name}" for number, name in enumerate(names)]
    data, number = [], 0
    for step in made.steps:
        chosen = step.sensitivity is None
        cost = step.mechanism.epsilon**2 / 8 if chosen else step.sensitivity.squares / (2 * step.mechanism.sigma**2)
        data.append({"round": order[number], "kind": "choice" if chosen else "measurement", "cost": float(cost)})
        number += not chosen
    whole = sum(float(each["cost"]) for each in data)
    costs = [{**each, "share": each["cost"] / whole} for each in data]
    shades = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=["measurement", "choice"], range=INK[:2]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    tall = 15 * len(order)
    left = alt.Chart(alt.Data(values=costs), width=250, height=tall, title="share of the price").mark_bar()
    named = alt.Y("round:N", sort=order, title=None, axis=alt.Axis(labelLimit=260))
    left = left.encode(y=named, x=alt.X("share:Q", title=None, axis=alt.Axis(format="%")), color=shades)
    first = len(made.attributes)
    gains = [each.gain if index >= first else None for index, each in enumerate(made.rounds)]
    right = alt.Chart(rows(round=order, gain=[None, *gains]), width=250, height=tall, title="rows that the model moved")
    bare = alt.Y("round:N", sort=order, title=None, axis=alt.Axis(labels=False, ticks=False))
    right = right.mark_bar(color=INK[2]).encode(y=bare, x=alt.X("gain:Q", title=None))
    save(alt.hconcat(left, right), "aim-rounds")


def _combined(sets: tuple[tuple[int, ...], ...], own: Attributes, variances: list[float]) -> list[float]:
    """Cell variances of marginals with noise of their own once all are combined by least squares."""
    sizes = [each.size for each in own]
    marginals = [
        MeasuredMarginal(each, np.zeros([sizes[place] for place in each], np.int64), Fraction(math.sqrt(variance)))
        for each, variance in zip(sets, variances, strict=True)
    ]
    found = least_squares(own, (), marginals)
    return [float(found.marginal_and_variances(each)[1].reshape(-1)[0]) for each in sets]


def online() -> None:
    """The largest error so far of an online session, question by question, against what it promised: ten sessions."""
    frame = pd.read_parquet(sf.example().parent / "flights.parquet")
    edges: dict[str, list[int]] = {"distance": [0, 500, 1000, 2000, 5000], "delay": [-30, 0, 15, 60, 180]}
    columns: dict[str, dict[str, object]] = {
        "carrier": {"values": sorted(frame["carrier"].unique())},
        "origin": {"values": sorted(frame["origin"].unique())},
        **{name: {"type": "integer", "bounds": (own[0], own[-1]), "bins": own} for name, own in edges.items()},
    }
    frame["delay"] = frame["delay"].clip(-30, 180)
    table = sf.Table("flights", frame[list(columns)], columns, id="row")
    unit, budget = sf.PrivacyUnit("flight", every_row=True), sf.Budget(100, "1e-3")
    policy = sf.Policy(unit, budget, {"flights": table}, allow_large_delta=True)
    kinds = {"from marginals of two columns": False, "textbook: from the number of rows": True}
    data, bounds = [], []
    with TemporaryDirectory() as folder, sf.Curator(policy, f"{folder}/flights.ledger") as curator:
        for kind, textbook in kinds.items():
            proposal = curator.online("flights", list(columns), ways=2, rounds=20, textbook=textbook)
            bounds.append({"kind": kind, "bound": proposal.error(epsilon=1, delta="1e-9", confidence="0.95")})
            for seed in range(10):
                found = _largest_errors(proposal.release(epsilon=1, delta="1e-9"), frame, columns, edges, seed)
                data += [{"asked": at + 1, "error": each, "kind": kind, "seed": seed} for at, each in enumerate(found)]
    legend = alt.Legend(title=None, orient="bottom")
    shades = alt.Color("kind:N", scale=alt.Scale(range=INK[:2], domain=list(kinds)), legend=legend)
    across = alt.X("asked:Q", scale=alt.Scale(type="log", domain=[1, 300], nice=False), title="questions")
    up = alt.Y("error:Q", title="largest error so far, in flights", scale=alt.Scale(type="log", domain=[10, 100_000]))
    lines = alt.Chart(alt.Data(values=data)).mark_line(strokeWidth=1.2, opacity=0.7, clip=True)
    lines = lines.encode(x=across, y=up, color=shades, detail="seed:N")
    promised = alt.Chart(alt.Data(values=bounds)).mark_rule(strokeDash=[6, 4], strokeWidth=2)
    chart = (lines + promised.encode(y="bound:Q", color=shades)).properties(
        width=560,
        height=300,
        title=f"Ten online sessions over {len(frame):,} flights (ε = 1, δ = 1e-9), and what was promised (dashed)",
    )
    save(chart, "online")


def _largest_errors(
    session: OnlineSession,
    frame: pd.DataFrame,
    columns: dict[str, dict[str, object]],
    edges: dict[str, list[int]],
    seed: int,
) -> list[float]:
    """Ask a session for conjunctions of three or four columns."""
    draw, found = np.random.default_rng(seed), []
    for _ in range(300):
        tests = []
        for name in draw.choice(list(columns), draw.integers(3, 5), replace=False):
            if name in edges:
                low, high = sorted(draw.choice(len(edges[name]), 2, replace=False))
                ends = edges[name][low], edges[name][high]
                tests.append(
                    f"{name} >= {ends[0]} AND {name} {'<=' if high == len(edges[name]) - 1 else '<'} {ends[1]}"
                )
            else:
                own = columns[name]["values"]
                assert isinstance(own, list)
                kept = draw.choice(own, max(1, len(own) // 2), replace=False)
                tests.append(f"{name} IN ({', '.join(repr(str(each)) for each in kept)})")
        test = " AND ".join(tests)
        answer = session.sql(f"SELECT COUNT(*) AS n FROM flights WHERE {test}")
        truth = len(
            frame.query(test.replace(" IN ", " in ").replace(" AND ", " and ").replace("(", "[").replace(")", "]"))
        )
        found.append(max(abs(answer.rows[0][0] - truth), 1))
    session.close()
    return np.maximum.accumulate(found).tolist()


if __name__ == "__main__":
    drawings = (
        answer,
        months,
        plots,
        time_series,
        curves,
        calibration,
        holes,
        law,
        selection,
        keys,
        truthfulness,
        auction,
        commitment,
        equilibrium,
        unknown_groups,
        per_person,
        joins,
        periods,
        growing_tables,
        builder,
        degrees,
        survival,
        sessions,
        running,
        private_bounds,
        workloads,
        spread,
        medians,
        surveys,
        synopsis,
        residuals,
        online,
        synthetic,
        rows_or_synopsis,
        rare_rows,
        aim_rounds,
        *theory.DRAWINGS,
        diagrams.diagrams,
    )
    wanted = sys.argv[1:] or [draw.__name__ for draw in drawings]
    for draw in drawings:
        if draw.__name__ in wanted:
            draw()
