"""A model of a whole table is bought step by step: what to measure next follows from what was released before."""
