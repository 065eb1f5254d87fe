"""Requests become calls of the counter, and what the counter gives becomes a reply."""
