"""Releases: priced without data, charged, read, drawn, stored, and then shown, always in this order."""
