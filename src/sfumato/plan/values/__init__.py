"""A value of one row is made of columns and literals by functions: its type, its range and its words are known here."""
