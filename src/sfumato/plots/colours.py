"""Every colour of a picture, and the dashes that tell lines apart without colour."""

from __future__ import annotations

INK, QUIET, RULE, PAPER = "#20262e", "#5b6470", "#dfe3e8", "#ffffff"
"""Text, secondary text, grid lines, background."""
BAR, ERROR_BAR, BAR_LABEL, SAMPLE = "#8fb3d9", "#1b3a57", "#1b3a57", "#c2410c"
"""A bar, its error bar and its number, and a highlighted sample or threshold."""
LINES = ("#0067a5", "#b24a00", "#00755a", "#7a3b96", "#8a5a00", "#4d4d4d", "#b0327a", "#2f6f8f")
"""A colour-blind-safe palette (after Okabe and Ito), all dark enough on white."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 3", "6 2 1 2 1 2")
"""Dash patterns of the lines, so that they differ without colour too."""
FIRST, SECOND = "#1b3a57", "#e69f00"
"""Paired bars: dark blue and orange, distinguishable with any colour vision, and in greyscale."""
HEAT_LARGEST, HEAT_NEGATIVE = (8, 55, 107), (166, 76, 0)
"""RGB of a heat map's largest and most negative number: blue and brown, distinguishable with any colour vision."""
BLACK = "#000000"
"""A heat map's numbers on light cells; on dark ones they have the colour of the paper."""
VEGA_BAR, VEGA_ERROR_BAR, VEGA_AXIS = "#7a8ca5", "#2b3a4f", "#999"
"""The charts handed to Altair, which draws on a notebook's own background."""
