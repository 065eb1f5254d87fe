"""A release is charged once, takes its turn, runs to its end and answers at its clock's tick."""
