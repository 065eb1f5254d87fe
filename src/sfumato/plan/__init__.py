"""Query plans: typed trees of what a question measures."""
