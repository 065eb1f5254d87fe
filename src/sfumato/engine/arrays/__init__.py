"""Arrays of exact numbers are made of the rows that a statement gave, in the same way for every engine."""
