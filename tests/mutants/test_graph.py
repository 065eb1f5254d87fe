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
        "publish.graph.trees:_ordered",
        "            if overlap > count:\n",
        "            if overlap > 0 and count == 0:\n",
        _TREES,
    ),
    Mutant(
        "neighbours of an attribute that is taken away are not joined",
        Kind.SAMPLING,
        "publish.graph.trees:_eliminated",
        "(neighbours[other] | rest) & ~own",
        "neighbours[other] & ~own",
        _TREES,
    ),
    Mutant(
        "the attribute with the largest table is taken away first",
        Kind.LIMITS,
        "publish.graph.trees:_eliminated",
        "place = min(_bits(left)",
        "place = max(_bits(left)",
        _TREES,
    ),
    Mutant(
        "cliques that others hold are kept",
        Kind.LIMITS,
        "publish.graph.trees:_maximal",
        "if each & other == each:",
        "if each == other:",
        _TREES,
    ),
    Mutant(
        "what is shared is counted twice outside cliques",
        Kind.SAMPLING,
        "publish.graph.models:_Parts._conditional",
        "divided(message, laid_over(self.sum_of(index, shared), shared, places))",
        "message",
        _MODELS,
    ),
    Mutant(
        "unconnected parts are multiplied without dividing by the total",
        Kind.SAMPLING,
        "publish.graph.models:_Parts.marginal",
        "divided(counts, np.array(self._total))",
        "counts",
        _MODELS,
    ),
    Mutant(
        "extreme potentials vanish",
        Kind.NAN,
        "publish.graph.calibrating:_DEEPEST",
        "_DEEPEST = 600.0",
        "_DEEPEST = 1e9",
        _MODELS,
    ),
    Mutant(
        "a clique is not rescaled to its parent",
        Kind.SAMPLING,
        "publish.graph.calibrating:Propagation._distribute",
        "divided(above, sums[index])",
        "divided(above, above)",
        _MODELS,
    ),
    Mutant(
        "axes are not turned back",
        Kind.SAMPLING,
        "publish.graph.models:GraphModel.marginals",
        "arranged(found[frozenset(each)], laid[frozenset(each)], each)",
        "found[frozenset(each)]",
        _MODELS,
    ),
    Mutant(
        "the second observation of a set replaces the first",
        Kind.REUSE,
        "publish.graph.fitting:_targets",
        "known.mean + weight * (new - known.mean)",
        "new",
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
        "found.get(own, 0.0) + arranged(potential.logs, potential.places, own)",
        "found.get(own, 0.0) + 0 * potential.logs.transpose()",
        _FITTING,
    ),
    Mutant(
        "a total below one row is not one row",
        Kind.NAN,
        "publish.graph.fitting:fitted",
        "max(float(total), 1.0)",
        "max(float(total), 1e-12)",
        _FITTING,
    ),
)

test_the_tests_of_graphs_notice = suite(MUTANTS)
