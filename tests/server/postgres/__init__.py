"""Tests of the PostgreSQL wire."""
