"""Seeded bugs in the loss of a release on a sample: wrong odds of being drawn, one direction for both, chords below."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

SAMPLES = "privacy/test_subsampling.py"
LOSS = "privacy.subsampled_losses:SubsampledLoss"
WEIGHTS = f"{SAMPLES}::test_how_many_changed_units_are_sampled"
EXACT = f"{SAMPLES}::test_poisson_sampling_is_exact_in_both_directions"
DOMINATES = f"{SAMPLES}::test_one_pair_dominates_and_is_dominated_by_another_at_every_epsilon"
FAILURE = f"{SAMPLES}::test_a_failure_is_as_rare_as_the_unit_is_sampled"

MUTANTS = (
    Mutant(
        "a sampled unit's ε is scaled by the rate, as if e^ε were 1 + ε",
        Kind.SAMPLING,
        f"{LOSS}.profile_bound",
        "math.log1p(math.expm1(epsilon) * inverse_share)",
        "epsilon * inverse_share",
        (EXACT,),
    ),
    Mutant(
        "both directions have the divergence of the first",
        Kind.NEIGHBOURS,
        f"{LOSS}.reversed",
        "replace(self, backward=not self.backward)",
        "self",
        (EXACT,),
    ),
    Mutant(
        "in the other direction the share that stays is not enlarged by e^ε",
        Kind.SAMPLING,
        f"{LOSS}._backward_profile_bound",
        "removed = (1 - rate) * math.expm1(epsilon)",
        "removed = rate * math.expm1(epsilon)",
        (EXACT,),
    ),
    Mutant(
        "units that are not sampled count as sampled once",
        Kind.SAMPLING,
        f"{LOSS}.sampled_weights",
        "* (1 - self.rate) ** (self.units - i)",
        "",
        (WEIGHTS,),
    ),
    Mutant(
        "units drawn without replacement are drawn with it",
        Kind.SAMPLING,
        f"{LOSS}.sampled_weights",
        "math.comb(self.population - changed, size - i)",
        "math.comb(self.population, size - i)",
        (WEIGHTS,),
    ),
    Mutant(
        "a group is sampled as one unit",
        Kind.NEIGHBOURS,
        f"{LOSS}.group",
        "replace(self, units=k * self.units, backward=False)",
        "replace(self, parts=tuple(((loss.group(k), count) for loss, count in self.parts)))",
        (f"{SAMPLES}::test_samples_are_drawn_before_units_are_counted",),
    ),
    Mutant(
        "a group of a group is counted once",
        Kind.NEIGHBOURS,
        f"{LOSS}.group",
        "units=k * self.units",
        "units=k",
        (f"{SAMPLES}::test_samples_are_drawn_before_units_are_counted",),
    ),
    Mutant(
        "a change of several sampled units leaks like one",
        Kind.SENSITIVITY,
        "privacy.subsampled_losses:_base_directions",
        "loss.group(changed)",
        "loss.group(1)",
        (f"{SAMPLES}::test_no_database_leaks_more_than_a_sample_of_it_may",),
    ),
    Mutant(
        "the curve of a group is sampled",
        Kind.NEIGHBOURS,
        "privacy.curve:Curve.group",
        "size * self.group_size",
        "1",
        (f"{SAMPLES}::test_samples_are_drawn_before_units_are_counted",),
    ),
    Mutant(
        "a Poisson sample is taken under a promise for databases of one size",
        Kind.NEIGHBOURS,
        "privacy.curve:Curve._sampling_rate_and_population",
        "self.neighbours is Neighbours.REPLACE and (not bounds_presence)",
        "self.neighbours is None",
        (f"{SAMPLES}::test_what_is_no_sample_is_refused",),
    ),
    Mutant(
        "a failure on a sample is forgotten in compositions",
        Kind.DELTA,
        "privacy.subsampled_losses:_dominating_lattice_pair",
        "tuple((masses[step] for step in steps)), forward.mass_at_infinity, backward.mass_at_infinity)",
        "tuple((masses[step] for step in steps)), 0.0, backward.mass_at_infinity)",
        (FAILURE,),
    ),
    Mutant(
        "negative losses have the mass of the other law",
        Kind.ROUNDING,
        "privacy.subsampled_losses:_dominating_lattice_pair",
        "mass * math.exp(-float(step * spacing))",
        "mass",
        (DOMINATES,),
    ),
    Mutant(
        "the chords' mass is that of Q",
        Kind.ROUNDING,
        "privacy.subsampled_losses:_chord_masses",
        "point[0] * max(0.0, slopes[i] - slopes[i - 1])",
        "max(0.0, slopes[i] - slopes[i - 1])",
        (DOMINATES,),
    ),
    Mutant(
        "the reverse of a lattice pair keeps its masses",
        Kind.NEIGHBOURS,
        "privacy.subsampled_losses:LatticeLoss.reversed",
        "mass * math.exp(-float(step * self.spacing))",
        "mass",
        (DOMINATES,),
    ),
    Mutant(
        "a failure of the release is forgotten on the side without the unit",
        Kind.DELTA,
        f"{LOSS}.largest_loss_if_bounded",
        "if self.backward and shape.failure(sides[-1]):",
        "if self.backward and False:",
        (DOMINATES,),
    ),
    Mutant(
        "a line that should be below the profile is not lowered",
        Kind.ROUNDING,
        "privacy.subsampled_losses:_supporting_line",
        "max(0.0, lowered) * (1 + _ROUNDING)",
        "0.0",
        (DOMINATES,),
    ),
    Mutant(
        "below α = 1 a profile is taken for its reverse",
        Kind.NEIGHBOURS,
        "privacy.subsampled_losses:_privacy_profile",
        "loss.reversed().delta_range(-math.log(alpha))",
        "loss.delta_range(-math.log(alpha))",
        (DOMINATES,),
    ),
    Mutant(
        "the lower bound of a composition is that of the pair that dominates",
        Kind.AUDIT,
        "privacy.curve:Curve._dominated_directions",
        "loss.dominated_factors or loss.factors",
        "loss.factors",
        (f"{SAMPLES}::test_the_bounds_of_a_composition_are_not_those_of_one_pair",),
    ),
)

test_the_tests_notice = suite(MUTANTS)
