"""A server knows who may call it: users, their tokens and sessions, and what each token may still spend."""
