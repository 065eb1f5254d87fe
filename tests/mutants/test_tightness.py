"""Seeded bugs where losses are known more closely: key thresholds, vectors of Gaussian noise, sums under replace."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_GROUPS = "mechanisms/test_groups.py"
_OUTSIDE = f"{_GROUPS}::test_what_an_account_is_charged_holds_outside_the_failure"
_KEYS = f"{_GROUPS}::test_keys"
_VECTORS = "privacy/test_vectors.py"
_ROUNDED = f"{_VECTORS}::test_a_rounded_gaussian_covers_every_shift"
_WORST = f"{_VECTORS}::test_the_worst_shift_by_exact_sums"
_SUMS = "safety/test_tightness.py::test_sums_of_any_bounds_keep_their_claims"
_WIDTHS = "plan/test_bounding.py::test_lopsided_sums_move_by_the_width_of_their_box_when_a_unit_is_replaced"
MUTANTS = (
    Mutant(
        "the failure of a group of units is that many failures of one",
        Kind.DELTA,
        "privacy.threshold_losses:LaplaceKeyThresholdLoss.group",
        "reveal = max_passing_probability(self.scale, self.threshold, k * self.weight, k * self.most)",
        "reveal = k * self.reveal",
        (_KEYS,),
    ),
    Mutant(
        "weights are charged as if they were spread evenly",
        Kind.SENSITIVITY,
        "mechanisms.key_thresholds:KeyThreshold.curve",
        "self.max_groups if self.weighted else 1",
        "1",
        (_KEYS, _OUTSIDE),
    ),
    Mutant(
        "the charge of a Gaussian threshold forgets the half of δ that its noise uses",
        Kind.DELTA,
        "privacy.threshold_losses:GaussianKeyThresholdLoss.failure",
        "return self.delta_in_all",
        "return self.delta_in_all / 2",
        ("mechanisms/test_key_thresholds.py::test_gaussian_thresholds",),
    ),
    Mutant(
        "lines that were written before are charged anew",
        Kind.CHARGE_ORDER,
        "mechanisms.key_thresholds:LegacyKeyThreshold.curve",
        "Curve.approximate(self.epsilon, self.delta, self.neighbours)",
        "super().curve() if self.max_groups > 1 else Curve.approximate(self.epsilon, self.delta, self.neighbours)",
        ("ledger/test_golden.py",),
    ),
    Mutant(
        "only the longest shift is looked at",
        Kind.SENSITIVITY,
        "privacy.noise_losses:maximal_shifts",
        "            maximal.append(shift)\n",
        "            maximal = [max(*maximal, shift, shift)]\n",
        (f"{_VECTORS}::test_only_shifts_that_cannot_grow_are_looked_at",),
    ),
    Mutant(
        "rounding takes nothing from the variance",
        Kind.ROUNDING,
        "privacy.noise_losses:DiscreteGaussianVectorLoss.continuous_mu_squared",
        "return self.squares / (self.sigma_squared - _ROUNDING_VARIANCE)",
        "return self.squares / (self.sigma_squared + _ROUNDING_VARIANCE)",
        (_ROUNDED,),
    ),
    Mutant(
        "a shift is left out because another one is bounded",
        Kind.DELTA,
        "privacy.shape:_worst_delta",
        "if quick_bound is None or sum(quick_bound) > low:",
        "if low == 0 and (quick_bound is None or sum(quick_bound) > low):",
        (_WORST,),
    ),
    Mutant(
        "totals are cut to the same size on both sides",
        Kind.LIMITS,
        "engine.lowering.clip_scaling:ClipScaling.clipped_columns",
        "clamped_total = clamped(Reference(self.coordinates[0]), *(integer_constant(end) for end in self.box))",
        "clamped_total = clamped(Reference(self.coordinates[0]), "
        "integer_constant(-self.max_in_group), integer_constant(self.max_in_group))",
        ("safety/test_tightness.py::test_no_claim_is_exceeded_when_a_unit_is_replaced", _SUMS),
    ),
    Mutant(
        "a replaced row moves a sum by high − low",
        Kind.NEIGHBOURS,
        "plan.bounding:ScaledMeasure.row_contribution_bounds",
        "(min(contribution.low, 0), max(contribution.high, 0))",
        "(contribution.low, contribution.high)",
        (_WIDTHS, _SUMS),
    ),
    Mutant(
        "a replaced unit moves a signed sum by its larger end",
        Kind.FACTOR_TWO,
        "plan.bounding:_step_width",
        "return max(1, high - low)",
        "return max(1, high, -low)",
        (_WIDTHS, _SUMS),
    ),
)

test_the_tests_of_tightness_notice = suite(MUTANTS)
