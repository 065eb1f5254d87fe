"""What callers send becomes a call of the counter, and what it gives becomes a reply."""
