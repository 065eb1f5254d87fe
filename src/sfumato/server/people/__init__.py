"""Users, their tokens and sessions, and how much each token may still spend."""
