"""Marginals are made of blocks, and a query over a marginal asks something of each of its blocks.

Let r_B be what block B stands for: the differences that it picks (``chains``), without levels r_B = P_B·m_B. A cell of
the marginal m_A is the sum, over the blocks B within A, of r_B at the parts that the cell is in, times the cell's share
of them and of the whole of every attribute outside B: without levels Σ_B r_B·Π_{A∖B} 1/n_j. A query q over A therefore
has ⟨q, m_A⟩ = Σ_B⟨q_B, r_B⟩, where q_B is q weighed by the same shares and centred among siblings. Noise that is
independent in the entries of each block, of variance v_B, gives it the variance Σ_B v_B‖q_B‖².

All of it is done axis by axis: a marginal is made with few more additions than it has cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Block, Set
from sfumato.publish.marginals.chains import Floats, along


def lifted(parts: Mapping[Block, Floats], places: Set, attributes: Attributes, within: Block = ()) -> Floats:
    """Make a marginal from its blocks; ``within`` are those of earlier axes, which stay as they are."""
    if not places:
        return parts[within]
    axis, chain = len(within), attributes[places[0]].chain
    whole = lifted(parts, places[1:], attributes, within)
    found = np.expand_dims(whole, axis) * along(chain.shares, axis, whole.ndim + 1)
    for level, each in enumerate(chain.differences, 1):
        if each.parts:
            finer = lifted(parts, places[1:], attributes, (*within, (places[0], level)))
            found += each.spread(finer, axis)
    return found


def cell_variances(variances: Mapping[Block, float], places: Set, attributes: Attributes) -> Floats:
    """Give the variance of every cell of a marginal, from those of its blocks; it cannot be written to."""
    sizes = tuple(attributes[place].size for place in places)
    return np.broadcast_to(_variances(variances, places, attributes, ()), sizes)


def _variances(variances: Mapping[Block, float], places: Set, attributes: Attributes, within: Block) -> Floats:
    if not places:
        return np.asarray(variances[within])
    chain = attributes[places[0]].chain
    found: Floats = np.zeros(())
    for level, factors in enumerate([chain.shares**2, *(each.variances for each in chain.differences)]):
        if level and not chain.differences[level - 1].parts:
            continue
        block = (*within, (places[0], level)) if level else within
        finer = _variances(variances, places[1:], attributes, block)
        constant = factors[:1] if bool((factors == factors[0]).all()) else factors
        found = found + along(constant, 0, finer.ndim + 1) * finer[None]
    return found


def asked(query: Floats, places: Set, attributes: Attributes) -> dict[Block, Floats]:
    """Find q_B for each block of the marginal that a query is over."""
    found: dict[Block, Floats] = {(): np.asarray(query, np.float64)}
    for place in places:
        chain, finer = attributes[place].chain, {}
        for block, values in found.items():
            axis = len(block)
            finer[block] = np.asarray(np.tensordot(values, chain.shares, (axis, 0)))
            for level, each in enumerate(chain.differences, 1):
                if each.parts:
                    finer[(*block, (place, level))] = each.asked(values, axis)
        found = finer
    return found


def weighed(values: Floats, block: Block, attributes: Attributes) -> Floats:
    """Multiply entries by the deviation of their noise, which is 1 unless weights of parents were rounded."""
    for axis, (place, level) in enumerate(block):
        each = attributes[place].chain.differences[level - 1]
        if not each.even:
            values = values * along(each.noise, axis, values.ndim)
    return values


def squared_norms(parts: Mapping[Block, Floats], attributes: Attributes) -> dict[Block, float]:
    """Compute ‖q_B‖² for each block that is asked, weighed by the noise of its entries."""
    return {block: float((weighed(each, block, attributes) ** 2).sum()) for block, each in parts.items()}
