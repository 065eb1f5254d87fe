"""The cases that an engine computes at its opening to prove itself: rows, spellings and whole statements."""
