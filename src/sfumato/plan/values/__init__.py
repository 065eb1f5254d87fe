"""Expressions over one row: columns, literals and functions, with their types, ranges and texts."""
