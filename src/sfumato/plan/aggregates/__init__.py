"""A measure is what is asked of many rows: it says what one unit can change of it, and how it is estimated."""
