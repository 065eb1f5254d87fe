"""Tests of the catalog that PostgreSQL clients read."""
