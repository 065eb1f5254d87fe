"""What an engine computes at its opening to prove itself is listed here: rows, spellings and whole statements."""
