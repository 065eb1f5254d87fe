"""Readings: what an engine computes exactly, before noise, each with its sensitivity."""
