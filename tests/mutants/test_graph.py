"""Seeded bugs in graphical models: wrong marginals, cells that are not impossible any more, fits that are not best."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TREES = ("publish/graph/test_trees.py",)
_MODELS = ("publish/graph/test_models.py",)
_FITTING = ("publish/graph/test_fitting.py",)

MUTANTS = (
    Mutant(
        "cliques hang on any that they share something with",
        Kind.SAMPLING,
        "publish.graph.trees:_cliques_with_parents",
        "            if overlap > count:\n",
        "            if overlap > 0 and count == 0:\n",
        _TREES,
    ),
    Mutant(
        "neighbours of an attribute that is taken away are not joined",
        Kind.SAMPLING,
        "publish.graph.trees:_elimination_cliques",
        "(neighbours[other] | rest) & ~attribute_bit",
        "neighbours[other] & ~attribute_bit",
        _TREES,
    ),
    Mutant(
        "the attribute with the largest table is taken away first",
        Kind.LIMITS,
        "publish.graph.trees:_elimination_cliques",
        "attribute_index = min(_set_bit_indices(remaining)",
        "attribute_index = max(_set_bit_indices(remaining)",
        _TREES,
    ),
    Mutant(
        "cliques that others hold are kept",
        Kind.LIMITS,
        "publish.graph.trees:_maximal_cliques",
        "if clique & other == clique:",
        "if clique == other:",
        _TREES,
    ),
    Mutant(
        "what is shared is counted twice outside cliques",
        Kind.SAMPLING,
        "publish.graph.models:_CliqueSums._conditional",
        "divide_or_zero(message, broadcast_to_attributes(self.sum_of(index, shared), shared, attribute_set))",
        "message",
        _MODELS,
    ),
    Mutant(
        "unconnected parts are for_multiplied_rows without dividing by the total",
        Kind.SAMPLING,
        "publish.graph.models:_CliqueSums.marginal",
        "divide_or_zero(counts, np.array(self._total))",
        "counts",
        _MODELS,
    ),
    Mutant(
        "extreme potentials vanish",
        Kind.NAN,
        "publish.graph.models:_DEEPEST",
        "_DEEPEST = 600.0",
        "_DEEPEST = 1e9",
        _MODELS,
    ),
    Mutant(
        "a clique is not rescaled to its parent",
        Kind.SAMPLING,
        "publish.graph.models:PropagationSchedule._distribute_downward",
        "divide_or_zero(parent_sums, sums[index])",
        "divide_or_zero(parent_sums, parent_sums)",
        _MODELS,
    ),
    Mutant(
        "axes are not turned back",
        Kind.SAMPLING,
        "publish.graph.models:GraphicalModel.marginals",
        "transpose_to(counts_by_set[frozenset(attribute_set)], ordered_indices[frozenset(attribute_set)], "
        "attribute_set)",
        "counts_by_set[frozenset(attribute_set)]",
        _MODELS,
    ),
    Mutant(
        "the second observation of a set replaces the first",
        Kind.REUSE,
        "publish.graph.fitting:_combined_observations",
        "target.mean + weight * (observed - target.mean)",
        "observed",
        _FITTING,
    ),
    Mutant(
        "impossible cells are forgotten",
        Kind.KEYS,
        "publish.graph.fitting:_starting_logs",
        "np.where(cells, -np.inf, 0.0)",
        "np.where(cells, -5.0, 0.0)",
        _FITTING,
    ),
    Mutant(
        "a start is forgotten",
        Kind.REUSE,
        "publish.graph.fitting:_starting_logs",
        "logs.get(ordered_indices, 0.0) + transpose_to(potential.logs, potential.attribute_set, ordered_indices)",
        "logs.get(ordered_indices, 0.0) + 0 * potential.logs.transpose()",
        _FITTING,
    ),
    Mutant(
        "a new set is corrected away from what was measured",
        Kind.RANGES,
        "publish.graph.fitting:_corrections_of_start",
        "np.log(np.maximum(target.mean, 0.0) + deviation) - np.log(expected + deviation)",
        "np.log(expected + deviation) - np.log(np.maximum(target.mean, 0.0) + deviation)",
        _FITTING,
    ),
    Mutant(
        "noise corrects a start as if it were counts",
        Kind.RANGES,
        "publish.graph.fitting:_corrections_of_start",
        "target.precision ** (-0.5)",
        "1e-09",
        _FITTING,
    ),
    Mutant(
        "a total below one row is not one row",
        Kind.NAN,
        "publish.graph.fitting:fit_model",
        "max(float(total), 1.0)",
        "max(float(total), 1e-12)",
        _FITTING,
    ),
)

test_the_tests_of_graphs_notice = suite(MUTANTS)
