"""A question in SQL is answered from cells alone: what an expression is in each of them, and which groups they make."""
