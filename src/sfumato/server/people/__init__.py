"""Who may call a server: its users, their tokens and sessions, and what each token may spend."""
