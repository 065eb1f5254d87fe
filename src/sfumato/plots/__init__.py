"""Pictures are drawn by ourselves, as SVG: small, sharp, the same every time, and with nothing to load.

scales           one column of numbers with labels and ranges
letters, marks   how wide a text is; elements of SVG, every text escaped
scales, axes     where numbers and times stand, and which of them are written
bars             ranges; two bars for each label; a bar over each bin
bars, panels     rows of bars in line; small pictures with labels of their own
lines            lines with bands, along dates, numbers or a curve
heat_maps        a number for every pair of two keys
frame, picture   title and terms around it; the finished text, and files
answers          which of them an answer is drawn as
"""

from sfumato.plots.picture import Picture, check_picture

__all__ = ["Picture", "check_picture"]
