"""Charts as self-contained SVG: small, deterministic, and with nothing to load.

bars       bar charts in aligned panels, error bars, paired bars, histograms
lines      line charts with bands; heat maps, a number for every pair of two keys
frame      linear, log and time scales with ticks; ``ChartData``, one column of numbers with labels and ranges; axes,
           layout, title and footer
picture    SVG elements, every text escaped; text widths; the finished SVG, and files
answers    which chart an answer is drawn as
"""

from sfumato.plots.picture import Picture, check_picture_path

__all__ = ["Picture", "check_picture_path"]
