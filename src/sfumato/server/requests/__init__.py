"""Parsing of HTTP requests into calls of the gateway, and encoding of its results as responses."""
