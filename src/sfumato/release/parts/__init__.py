"""The parts of a question: each has measurements, a share of the price, and the scale of its noisy numbers."""
