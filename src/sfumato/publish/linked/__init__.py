"""Synthetic tables that belong together: parents, their children, and keys that fit."""
