"""A reading is what an engine computes exactly, before noise: each says how far one unit can move it."""
