"""Exact vectors of forecasts, of what proposals and sessions say of their errors, and of the limits of audits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from publish.worlds import attributes
from sfumato.audit import canaries
from sfumato.audit.lower_bounds import falsifying, verdicts
from sfumato.audit.whole_policies import audit_testbeds, curator_audits
from sfumato.curator import step_counts
from sfumato.curator.previews import error_forecasts
from sfumato.curator.proposals import bought_synopses, marginals, stored_answers, synthesis, workloads
from sfumato.curator.proposals.degrees import Degrees
from sfumato.curator.proposals.marginals import MarginalsProposal
from sfumato.curator.proposals.mwem import MwemProposal
from sfumato.curator.proposals.online import OnlineProposal, OnlineSession
from sfumato.curator.proposals.running_counts import RunningTotalsProposal
from sfumato.curator.proposals.scores import ScoreProposal
from sfumato.curator.proposals.sessions import SessionProposal
from sfumato.curator.proposals.stored_answers import AuctionOutcome
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.curator.proposals.table_auctions import AuctionRelease
from sfumato.curator.step_counts import StepCounts, StepSearch
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.sparse import AboveThreshold
from sfumato.privacy import Guarantee, Neighbours
from sfumato.publish.marginals import planning
from sfumato.release.comparisons import ThresholdAnswer
from vectors import routes
from vectors.registry import Registry, Scope, Vector, between, exact

WORDS = {"width", "widths", "interval", "intervals", "error", "errors", "cost", "share", "shares", "range", "covered"}
PARAMETERS = {"beta", "confidence", "miss", "sure"}
_SAID = "it puts into words what other formulas compute"
REGISTRY = Registry(
    (
        Scope(("curator",), frozenset(WORDS), frozenset(PARAMETERS)),
        Scope(
            ("audit/lower_bounds", "audit/canaries.py", "audit/whole_policies"),
            frozenset(WORDS | {"missed", "proven", "chance"}),
            frozenset(PARAMETERS | {"level"}),
        ),
    ),
    {
        "curator.cell_proposals.row_shares_within_limits": "it shows the owner counts of rows, and releases nothing",
        "curator.previews.advising._error_ratios": "it compares two forecasts, whose widths have vectors",
        "curator.previews.advising._removed_error_share": "it compares two forecasts, whose widths have vectors",
        "curator.previews.advising._width_before_and_after_with_size": "it looks up widths that have vectors",
        "curator.proposals.limit_proposals.ClippedQuestion._tip_if_large_share": "it says a released share in words",
        "curator.cell_proposals._share_containing_any": "it counts sampled cells for the owner, and releases nothing",
        "curator.previews.error_forecasts.draw_error_by_price": "it draws a line through what forecasts say",
        "curator.previews.explaining.explain_release": _SAID,
        "curator.previews.explaining._share_text": _SAID,
        "curator.previews.explaining._explain_subtotals": _SAID,
        "curator.previews.error_forecasts._widths_at_size": (
            "it measures a stand-in by the estimators of answers, which have vectors"
        ),
        "curator.proposals.combined_questions.CombinedQuestion._widths_at_size": (
            "it measures a stand-in by the estimators of answers, which have vectors"
        ),
        "curator.proposals.logistic.LogisticProposal._forecast": "it assumes data for widths with vectors",
        "curator.proposals.logistic.LogisticProposal.explain": _SAID,
        "curator.proposals.logistic.LogisticProposal.price": "it searches the least price for a width with vectors",
        "curator.proposals.synthesis._cells_price_share_text": _SAID,
        "curator.proposals.tab_releases.SteppedRelease.open_tab_and_run": "it adds up the costs of curves with vectors",
        "curator.proposals.logistic.WideLogisticProposal._forecast": "it says that no coefficient has a width",
        "curator.proposals.stored_answers.Bounds.words": _SAID,
        "curator.proposals.marginals.MarginalsProposal._explain_measurements": _SAID,
        "curator.proposals.marginals.MarginalsProposal.price": "it searches the least price for a width with vectors",
        "curator.proposals.moment_proposals.MomentsProposal.receipt": _SAID,
        "curator.proposals.mwem.MwemProposal.explain": _SAID,
        "curator.proposals.online.OnlineProposal.explain": _SAID,
        "curator.proposals.private_bounds.BoundsProposal.explain": _SAID,
        "curator.proposals.limit_proposals.UnitLimits.words": _SAID,
        "curator.previews.error_forecasts.quality_of_selected_columns": _SAID,
        "curator.proposals.running_counts.RunningTotalsProposal.explain": _SAID,
        "curator.proposals.running_counts.RunningTotalsProposal.build_answer": (
            "it adds and subtracts the widths of RunningNoise"
        ),
        "curator.proposals.survival.SurvivalProposal.build_answer": "it puts noisy counts into their unit",
        "curator.proposals.scores.ScoreProposal.explain": _SAID,
        "curator.proposals.sessions.SessionProposal.explain": _SAID,
        "curator.proposals.synthesis.SynthesisProposal.plan_steps": _SAID,
        "audit.lower_bounds.verdicts.plot_shares": "it draws a picture of two distributions",
        "audit.whole_policies.audit_testbeds.refute_by_draws": "it draws samples for falsify, which has vectors",
        "audit.lower_bounds.verdicts.format_confidence": "it writes a confidence with its digits",
        "audit.whole_policies.curator_audits.curator": "it runs an audit, and adds up minutes",
        "audit.whole_policies.planted_faults._inject_half_noise": "it plants a fault, and proves nothing itself",
        "audit.whole_policies.planted_faults._inject_shared_noise": "it plants a fault, and proves nothing itself",
        "audit.whole_policies.planted_faults._inject_one_noise": "it plants a fault, and proves nothing itself",
        "audit.whole_policies.planted_faults._inject_bare_keys": "it plants a fault, and proves nothing itself",
    },
)
formula = REGISTRY.formula


def _wide(scale: Any, sure: str, k: int = 1) -> int:
    """The half-width of k discrete Laplace noises together, from their tail."""
    level = mpf(Fraction(sure).numerator) / Fraction(sure).denominator
    return routes.laplace_half_width(scale, 1 - level ** (mpf(1) / k))


@formula("curator.proposals.degrees.Degrees.intervals")
def _degree_intervals() -> Iterator[Vector]:
    for scale, counts in ((4, (0, 7)), (Fraction(5, 2), (-3, 12, 5)), (40, (100,))):
        width = _wide(scale, "0.95")
        ends = {"nodes": [(float(count - width), float(count + width)) for count in counts]}
        yield exact(ends, lambda counts, scale: Degrees(counts, Laplace(scale)).intervals, counts, scale)


# ── sessions ───────────────────────────────────────────────────────────────────────────────────

GATE = AboveThreshold(Fraction(1, 2), 37, 1, 2, False, None, Neighbours.ADD_REMOVE)
ROUNDS = 3


def _close(beta: float) -> int:
    """T + a + b with C·P(ξ > a) ≤ β/2 and P(ν > b) ≤ β/2."""
    first, second, _ = GATE.scales
    a = next(w for w in itertools.count() if ROUNDS * routes.laplace_tail(first, w) <= mpf(beta) / 2)
    b = next(w for w in itertools.count() if routes.laplace_tail(second, w) <= mpf(beta) / 2)
    return 37 + a + b


class _Session(SimpleNamespace):
    _resolve_from_hypothesis, _resolve_from_bought = (
        OnlineSession._resolve_from_hypothesis,
        OnlineSession._resolve_from_bought,
    )

    def _gate_step_size(self, _: Any) -> float:
        return 0.5


def _told(beta: float, cells: int, *, guess: float, low: float, high: float, share: float) -> list[float]:
    """Ends of the hypothesis: the synopsis bounds it by low and high, each moved out by a tenth over its chance."""
    session = _Session(
        _batch=SimpleNamespace(gate=GATE, rounds=ROUNDS),
        _hypothesis=SimpleNamespace(guess_totals=lambda _: np.array([guess])),
    )
    measured = lambda beta, _: (None, np.array([low - 0.1 / beta]), np.array([high + 0.1 / beta]))  # noqa: E731
    compared = SimpleNamespace(parts=(1, 2))
    found = session._resolve_from_hypothesis(SimpleNamespace(estimate_with_ends=measured), compared, share).ends_at(
        beta, cells
    )
    return [float(each[0]) for each in found]


@formula("curator.proposals.online.OnlineSession._resolve_from_hypothesis.interval")
def _close_ranged() -> Iterator[Vector]:
    """What the gate says and what was measured have half of the chance each; beside other measures, a share of it."""
    for beta, cells, share in ((0.05, 1, 0.25), (0.05, 3, 0.25), (0.2, 7, 0.5)):
        own = beta if cells <= 2 else beta * share
        wide = (_close(own / 2) + 1) * 0.5
        out = 0.1 / (beta / 2)
        near = {"guess": 100.0, "low": -1e6, "high": 1e6, "share": share}
        yield exact([100 - wide, 100 + wide], _told, beta, cells, **near)
        tight = {"guess": 100.0, "low": 90.0, "high": 95.0, "share": share}
        yield exact([90 - out, 95 + out], _told, beta, cells, **tight)
        apart = {"guess": 100.0, "low": 9e5, "high": 1e6, "share": share}
        yield exact([100 - wide, 1e6 + out], _told, beta, cells, **apart)


@formula("curator.proposals.online.OnlineSession._resolve_from_bought.answer_group.interval")
def _bought_ranged() -> Iterator[Vector]:
    hypothesis = SimpleNamespace(updated=lambda *_: None)
    for beta, cells, scale in ((0.05, 1, 1), (0.05, 6, 4), (0.01, 2, 2)):
        batch = SimpleNamespace(noise_for=lambda _: Laplace(8), gate=GATE)
        session = _Session(_batch=batch, _hypothesis=hypothesis, _unit=Fraction(1, 2))
        asked = (SimpleNamespace(groups=SimpleNamespace(answer_grid_index=[0])),)
        compared = SimpleNamespace(max_row_effect=1, scale=scale)

        def ends(session: Any, asked: Any, compared: Any, beta: float, cells: int) -> list[float]:
            (found,) = session._resolve_from_bought(asked, compared, np.array([40]))
            return [float(each[0]) for each in found.ends_at(beta, cells)]

        wide = _wide(8, str(1 - Fraction(str(beta))), cells) * 0.5 / scale
        yield exact([20 / scale - wide, 20 / scale + wide], ends, session, asked, compared, beta, cells)


@formula("curator.proposals.online.OnlineProposal.error")
def _online_error() -> Iterator[Vector]:
    draw = SimpleNamespace(batch=SimpleNamespace(gate=GATE), rows_per_noise_step=0.25)
    own = SimpleNamespace(rounds=ROUNDS, _strategy_at=lambda _: draw)
    for sure in ("0.95", "0.9", "0.999"):
        beta = float(1 - Fraction(sure))
        yield exact((_close(beta) + 1) * 0.25, lambda sure: OnlineProposal.error(own, epsilon=1, confidence=sure), sure)  # type: ignore[arg-type]


@formula("curator.proposals.sessions.SessionProposal.error")
def _session_error() -> Iterator[Vector]:
    """How far from the threshold an answer is right: no noise of k questions and of the threshold reaches so far."""
    for questions, sure in ((1, "0.95"), (100, "0.95"), (10, "0.99")):
        own = SimpleNamespace(
            mechanism=lambda *_: SimpleNamespace(error=lambda k, c: k / (1 - Fraction(c))), grid=Fraction(1, 8)
        )
        wanted = float(questions / (1 - Fraction(sure)) / 8)
        ask = lambda own, k, sure: SessionProposal.error(own, 1, questions=k, confidence=sure)  # noqa: E731
        yield exact(wanted, ask, own, questions, sure)


@formula("curator.proposals.stored_answers._value_interval")
def _session_range() -> Iterator[Vector]:
    for value, scale, step, off in ((7, 3, Fraction(1, 2), 0), (-2, 5, 1, Fraction(1, 4)), (0, 9, Fraction(1, 8), 1)):
        reach = _wide(scale, "0.95") * Fraction(step) + off
        found = ThresholdAnswer(True, Fraction(value), Laplace(scale), Fraction(step), Fraction(off))
        yield exact((float(value - reach), float(value + reach)), stored_answers._value_interval, found, "0.95")


# ── forecasts of proposals ─────────────────────────────────────────────────────────────────────


@formula("curator.previews.error_forecasts._max_half_width")
def _forecast_max_half_width() -> Iterator[Vector]:
    """The longer side of the widest range; rows without a number have none."""
    for low, value, high, widest in (
        ([-1.0, 2.0], [0.0, 4.0], [1.0, 5.0], 2.0),
        ([math.nan, 2.5], [math.nan, 3.0], [math.nan, 3.75], 0.75),
        ([0.0], [0.0], [0.0], 0.0),
    ):
        column: Any = SimpleNamespace(low=np.array(low), value=np.array(value), high=np.array(high))
        yield exact(widest, error_forecasts._max_half_width, column)


@formula("curator.proposals.bought_synopses._max_half_width")
def _synopsis_width() -> Iterator[Vector]:
    yield exact(2.0, bought_synopses._max_half_width, [(0.0, 3.0), None, (1.0, 5.0)])
    yield exact(0.0, bought_synopses._max_half_width, [None])
    yield exact(0.75, bought_synopses._max_half_width, [(-1.0, 0.5)])


@formula("curator.proposals.marginals.MarginalsProposal._widths_if_independent")
def _alone() -> Iterator[Vector]:
    """z·σ of noise on whole marginals, whose variances share ρ by the cube roots of their cells."""
    own = attributes((2, 3, 4))
    workload = planning.MarginalWorkload(((0, 1), (1, 2)))
    plan = planning.plan_gaussian(workload, own).at_price(Fraction(1, 2))
    each = marginals.independent_variances(workload, own, plan.rows, plan.rho, "total")
    for sure in (0.95, 0.99, 0.5):
        z = routes.normal_beyond(1 - mpf(str(sure)))
        wanted = {places: z * math.sqrt(v) for places, v in zip(workload.sets, each, strict=True)}
        stub = SimpleNamespace(workload=workload, attributes=own, objective="total")
        low, high = ({places: w * (1 + sign * 2e-6) for places, w in wanted.items()} for sign in (-1, 1))
        yield between(low, high, MarginalsProposal._widths_if_independent, stub, plan, sure)


@formula("curator.proposals.mwem.MwemProposal.error")
def _mwem_error() -> Iterator[Vector]:
    for scale, unit, sure in ((3, Fraction(1), "0.95"), (10, Fraction(1, 4), "0.9"), (7, Fraction(1, 2), "0.99")):
        reading = SimpleNamespace(bounded=SimpleNamespace(measures=[SimpleNamespace(unit_value=unit)]))
        steps = SimpleNamespace(noise=Laplace(scale))
        own = SimpleNamespace(_reading=lambda _: reading, _steps_for_price=lambda _: steps)  # noqa: B023
        ask = lambda own, sure: MwemProposal.error(own, epsilon=1, confidence=sure)  # noqa: E731
        yield exact(float(_wide(scale, sure) * unit), ask, own, sure)


@formula("curator.proposals.mwem.MwemProposal._half_width_text")
def _mwem_wide() -> Iterator[Vector]:
    for scale, unit in ((3, Fraction(1)), (10, Fraction(1, 4)), (40, Fraction(1, 2))):
        written = f"{float(_wide(scale, '0.95') * unit):g}"
        yield exact(written, MwemProposal._half_width_text, None, Laplace(scale), unit, Fraction(19, 20))


@formula("curator.proposals.running_counts.RunningTotalsProposal._half_widths")
def _running_widths() -> Iterator[Vector]:
    """A whole number is shown rounded, by up to a half; all periods together share the chance."""
    noise = SimpleNamespace(widths=lambda sure, k: np.array([k / (1 - Fraction(sure)), 1.0], float))
    for joint, whole, wanted in ((False, True, [20.5, 1.5]), (True, True, [80.5, 1.5]), (True, False, [80.0, 1.0])):
        own = SimpleNamespace(_groups_in_series_order=range(4), _rounding_error=0.5 if whole else 0.0)
        yield exact(wanted, RunningTotalsProposal._half_widths, own, SimpleNamespace(noise=noise), "0.95", joint)


@formula("curator.proposals.scores.ScoreProposal._distance_half_width")
def _score_width() -> Iterator[Vector]:
    for scale, step, sure in ((3, Fraction(1, 12), "0.95"), (10, Fraction(1, 4), "0.9"), (7, Fraction(1), "0.99")):
        own = SimpleNamespace(_distance_step=lambda _: step)  # noqa: B023
        draw = SimpleNamespace(noise=Laplace(scale))
        yield exact(float(_wide(scale, sure) * step), ScoreProposal._distance_half_width, own, draw, Fraction(sure))


@formula("curator.proposals.scores.ScoreProposal._score_width")
def _score_points() -> Iterator[Vector]:
    for rows, public, candidate, wanted in (
        (None, 500, 40, 20.0),
        (None, None, 40, 250.0),
        (100, 500, 40, 100.0),
        (5, None, 1, 1000.0),
    ):
        own = SimpleNamespace(_public_row_count=public, candidate_rows=candidate, _distance_half_width=lambda *_: 10.0)
        yield exact(wanted, ScoreProposal._score_width, own, None, Fraction(19, 20), rows)


@formula("curator.proposals.stored_answers.AuctionOutcome.revenue_range")
def _revenue() -> Iterator[Vector]:
    """Price times buyers; a count below zero is moved there, and its range is never nothing."""
    for buyers, scale, sure in ((40, 3, "0.95"), (-50, 3, "0.95"), (2, 10, "0.9")):
        reach = _wide(scale, sure)
        wanted = 2.5 * max(0, buyers - reach), 2.5 * (max(0, buyers) + reach)
        yield exact(wanted, AuctionOutcome(Fraction(5, 2), buyers=buyers, counter=Laplace(scale)).revenue_range, sure)


@formula("games.auctions.Sale.revenue_range")
def _game_revenue() -> Iterator[Vector]:
    """As above, and of no more buyers than there are bidders."""
    from sfumato.games.auctions import Sale

    for buyers, wanted in ((40, (40 - 12, 40 + 12)), (-50, (0, 12)), (130, (100 - 12, 100)), (95, (95 - 12, 100))):
        auction = SimpleNamespace(count_noise=Laplace(4), size=100)
        own = SimpleNamespace(price=Fraction(5, 2), buyers=buyers, auction=auction)
        assert _wide(4, "0.95") == 12
        yield exact([2.5 * end for end in wanted], Sale.revenue_range, own, "0.95")


@formula("curator.proposals.synthesis.SynthesisProposal.first_counts_half_width")
def _first_width() -> Iterator[Vector]:
    for scale, unit, sure in ((3, Fraction(1), "0.95"), (10, Fraction(1, 4), "0.9"), (7, Fraction(1, 2), "0.99")):
        currency = SimpleNamespace(noise=lambda *_: Laplace(scale), total=Fraction(1))  # noqa: B023
        setting = SimpleNamespace(currency=currency, reading=None, unit_value=unit)
        own = SimpleNamespace(_first_round_amounts=lambda _: SimpleNamespace(measurement=None))
        with pytest.MonkeyPatch.context() as patch:  # nothing is read of the counts: their noise is given
            patch.setattr(synthesis, "CellCounts", lambda *_: SimpleNamespace(sensitivity=None))
            patch.setattr(synthesis, "first_sets_and_amount", lambda *_: ((), None))
            yield exact(
                float(_wide(scale, sure) * unit),
                SynthesisProposal.first_counts_half_width,
                own,
                setting,
                Fraction(sure),
            )


@formula("curator.proposals.table_auctions.AuctionRelease.error")
def _auction_error() -> Iterator[Vector]:
    """The exponential mechanism over n prices loses more than 2Δ·ln(n/β)/ε with probability β at most."""
    for epsilon, prices, sure in ((1, 4, "0.95"), (Fraction(1, 2), 10, "0.99"), (2, 2, "0.9")):
        selection = Exponential(Fraction(epsilon), sensitivity=3)
        batch = SimpleNamespace(measurements=[SimpleNamespace(mechanism=selection)])
        own = SimpleNamespace(batch=batch, prices=range(prices), unit=4)
        most = 2 * 3 * math.log(prices / float(1 - Fraction(sure))) / float(epsilon) / 4
        loss = 2 * 3 * math.log((prices - 1) * float(Fraction(sure)) / float(1 - Fraction(sure))) / float(epsilon) / 4
        yield between(loss - 0.5, most + 0.5, AuctionRelease.error, own, sure)


@formula("curator.proposals.workloads._share_count")
def _workload_shares() -> Iterator[Vector]:
    for measures, others, wanted in ((2, (1, 3), 6), (0, (), 1), (1, (), 1)):
        options = [SimpleNamespace(measures=range(measures))]
        own = SimpleNamespace(bounding_options=options, other_parts=[SimpleNamespace(shares=each) for each in others])
        yield exact(wanted, workloads._share_count, own)


# ── steps of ladders ───────────────────────────────────────────────────────────────────────────


@formula("curator.step_counts.selection_threshold")
def _surely_inside() -> Iterator[Vector]:
    miss = Fraction(step_counts._FALSE_POSITIVE_RATE)
    for scale, steps, sure in ((3, 10, "0.95"), (8, 64, "0.9"), (2, 1, "0.99")):
        above = routes.laplace_half_width(scale, 1 - (1 - mpf(miss.numerator) / miss.denominator) ** (mpf(1) / steps))
        yield exact(above + _wide(scale, sure) + 1, step_counts.selection_threshold, Laplace(scale), steps, sure)


@formula("curator.step_counts.StepCounts.covered_share_range")
def _covered() -> Iterator[Vector]:
    """The least and the greatest inside/(inside + outside) over all whole numbers that both ranges allow."""
    for inside, outside, scale in ((40, 6, 2), (3, 50, 4), (-9, 2, 3)):
        reach = _wide(scale, "0.95", 2)
        ends = [range(max(0, each - reach), max(0, each) + reach + 1) for each in (inside, outside)]
        shares = [Fraction(i, i + o) if i + o else Fraction(0) for i, o in itertools.product(*ends)]
        own = SimpleNamespace(inside=inside, outside=outside, counter=Laplace(scale))
        yield exact((min(shares), max(shares)), StepCounts.covered_share_range, own)


@formula("curator.step_counts._share_inside")
def _share() -> Iterator[Vector]:
    for inside, outside, wanted in (
        (3, 1, Fraction(3, 4)),
        (0, 0, Fraction(0)),
        (0, 5, Fraction(0)),
        (7, 0, Fraction(1)),
    ):
        yield exact(wanted, step_counts._share_inside, inside, outside)


@formula("curator.step_counts.StepSearch.error")
def _step_error() -> Iterator[Vector]:
    """The ladder has one step more than the place of its last."""
    miss = Fraction(step_counts._FALSE_POSITIVE_RATE)
    for scale, last in ((3, 9), (8, 63), (2, 0)):
        own = SimpleNamespace(step_counts=SimpleNamespace(mechanism=Laplace(scale)), step_of_group=(0, last))
        above = 1 - (1 - mpf(miss.numerator) / miss.denominator) ** (mpf(1) / (last + 1))
        wanted = routes.laplace_half_width(scale, above) + _wide(scale, "0.95") + 1
        yield exact(wanted, StepSearch.error, own, "0.95")


# ── audits ─────────────────────────────────────────────────────────────────────────────────────


@formula("audit.lower_bounds.verdicts.error_probability_per_limit")
def _missed() -> Iterator[Vector]:
    for level, events in ((Fraction(99, 100), 1), (Fraction(19, 20), 16), (1 - Fraction(1, 10**20), 4)):
        yield exact(float((1 - level) / (2 * events)), verdicts.error_probability_per_limit, level, events)


@formula("audit.lower_bounds.falsifying._epsilon_bound")
def _proven() -> Iterator[Vector]:
    """ln((p − δ)/q) at the limits of Clopper and Pearson, here as quantiles of beta laws."""
    for inside, beside, delta, miss in ((90, 30, 0.0, 0.005), (400, 100, 0.01, 0.001), (50, 2, 0.0, 0.01)):
        sides = np.array([inside, 1000 - inside]), np.array([beside, 1000 - beside])
        event = SimpleNamespace(swapped=False, count=lambda counts: int(counts[0]))
        p = float(stats.beta.ppf(miss, inside, 1000 - inside + 1)) - delta
        q = float(stats.beta.isf(miss, beside + 1, 1000 - beside))
        wanted = math.log(p / q)
        yield between(wanted - 2e-7, wanted + 1e-12, falsifying._epsilon_bound, event, sides, delta, miss)
    swapped = SimpleNamespace(swapped=True, count=lambda counts: int(counts[0]))
    p, q = float(stats.beta.ppf(0.01, 60, 41)), float(stats.beta.isf(0.01, 6, 95))
    wanted = math.log(p / q)
    sides = np.array([5, 95]), np.array([60, 40])
    yield between(wanted - 2e-7, wanted + 1e-12, falsifying._epsilon_bound, swapped, sides, 0.0, 0.01)


@formula("audit.lower_bounds.falsifying.required_samples")
def _least_samples() -> Iterator[Vector]:
    """With one measured sample fewer, an event that holds all of one world and none of the other proves no more."""
    kept = 1 - falsifying._TRAINING_SHARE - falsifying._SELECTION_SHARE
    for epsilon, delta, level in (
        (3, 0, Fraction(99, 100)),
        (5, Fraction(1, 100), Fraction(999, 1000)),
        (6, 0, Fraction(9, 10)),
    ):
        x = mpf(verdicts.error_probability_per_limit(level, falsifying._MAX_EVENTS))
        limits = ((many, x ** (mpf(1) / many)) for many in itertools.count(1))
        first = next(many for many, x in limits if x > delta and mp.log((x - delta) / (1 - x)) > epsilon)
        # the first that proves it, or one less where it is met with equality; then the samples that are not measured
        low, high = math.ceil((first - 1) / kept) + 10, math.ceil(first / kept) + 10
        yield between(max(100, low), max(100, high), falsifying.required_samples, Guarantee(epsilon, delta), level)


@formula("audit.canaries.guessing_tail_bound")
def _chance_of_guessing() -> Iterator[Vector]:
    """Without δ it is the tail of a binomial law with odds e^ε, here in 50 digits, rounded up a little."""
    for guesses, right, epsilon in ((20, 18, 1.0), (100, 80, 0.5), (10, 10, 2.0)):
        p = mp.e ** mpf(epsilon) / (1 + mp.e ** mpf(epsilon))
        tail = mp.fsum(mp.binomial(guesses, k) * p**k * (1 - p) ** (guesses - k) for k in range(right, guesses + 1))
        low = float(tail)
        yield between(low, low * 1.00001, canaries.guessing_tail_bound, 200, guesses, right, epsilon, 0.0)
    for delta in (0.001, 0.01):
        p = mp.e / (1 + mp.e)
        law = [mp.binomial(20, k) * p**k * (1 - p) ** (20 - k) for k in range(21)]
        tail = mp.fsum(law[18:])
        bounds = []
        for i in range(1, 19):
            share = mpf(2 * 20) * mpf(delta) / i
            bounds.append(max(mpf(1), share) * tail + share * mp.fsum(law[18 - i : 18]))
        low = float(min(mpf(1), max(bounds)))
        yield between(low, low * 1.00001, canaries.guessing_tail_bound, 20, 20, 18, 1.0, delta)


@formula("audit.canaries.epsilon_lower_bound")
def _proven_epsilon() -> Iterator[Vector]:
    """Where the tail is the chance to miss, found by halving in 50 digits; none where 0 is possible."""
    for guesses, right, miss in ((20, 19, 0.01), (100, 90, 0.05), (50, 50, 0.003)):

        def short(epsilon: mpf) -> mpf:
            p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
            chances = (mp.binomial(guesses, k) * p**k * (1 - p) ** (guesses - k) for k in range(right, guesses + 1))  # noqa: B023
            return mp.fsum(chances) - miss  # noqa: B023

        wanted = routes.root(short, 0, 30)
        yield between(wanted - 1e-5, wanted, canaries.epsilon_lower_bound, guesses, guesses, right, 0.0, miss)
    yield exact(0.0, canaries.epsilon_lower_bound, 20, 20, 11, 0.0, 0.01)


@formula("audit.canaries.one_run")
def _one_run() -> Iterator[Vector]:
    """Three numbers of guesses share what the confidence leaves; the scores here tell every coin."""

    def bound(many: int, guesses: Any, sure: str) -> float:
        run = canaries.one_run(
            lambda present: present * 1.0, Guarantee(Fraction(1, 10)), many, guesses=guesses, confidence=sure
        )
        return run.lower_bound

    for many, guesses, sure in ((64, None, "0.99"), (40, 40, "0.95"), (80, [20, 80], "0.9")):
        numbers = 3 if guesses is None else len(guesses) if isinstance(guesses, list) else 1
        miss = mpf(1 - float(sure)) / numbers
        p = miss ** (mpf(1) / many)
        wanted = float(mp.log(p / (1 - p)))
        yield between(wanted - 1e-4, wanted, bound, many, guesses, sure)


@formula("audit.whole_policies.curator_audits._verdict_confidence")
def _audit_share() -> Iterator[Vector]:
    for level, questions in ((Fraction(99, 100), 5), (Fraction(999, 1000), 40), (Fraction(1, 2), 0)):
        # with Laplace and with Gaussian noise each: noises compared and drawn; and releases bought; 10 planted faults
        verdicts = questions * (2 * 2 + 1) + 10
        yield exact(
            level + (1 - level) * Fraction(verdicts - 1, verdicts), curator_audits._verdict_confidence, level, questions
        )


@formula("audit.whole_policies.audit_testbeds._required_draws")
def _enough_draws() -> Iterator[Vector]:
    """The least number of draws is found by multiplying the chance of an accident, from the law itself."""
    for mechanisms, numbers, miss in (
        ([Laplace(3)], 2, Fraction(1, 10**6)),
        ([Laplace(40), Laplace(7)], 12, Fraction(1, 10**9)),
        ([Gaussian(5), Laplace(100)], 300, Fraction(1, 1000)),
        ([Gaussian(1)], 3, Fraction(1, 2)),
    ):
        likeliest = max(_chance_of_zero(mechanism) for mechanism in mechanisms)
        accident, draws = mpf(numbers) * (numbers - 1), 0
        while accident > mpf(miss.numerator) / miss.denominator:
            accident, draws = accident * likeliest, draws + 1
        yield exact(draws, audit_testbeds._required_draws, mechanisms, numbers, miss)
    yield exact(None, audit_testbeds._required_draws, [Laplace(3)], 1, Fraction(1, 2))
    yield exact(None, audit_testbeds._required_draws, [Laplace("0.025")], 2, Fraction(1, 2))


def _chance_of_zero(mechanism: Laplace | Gaussian) -> mpf:
    size = mpf(float(mechanism.sizes[0]))
    power = (lambda x: x / size) if isinstance(mechanism, Laplace) else (lambda x: x * x / (2 * size * size))
    return 1 / sum(mp.exp(-power(abs(x))) for x in range(-4000, 4001))


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
