"""A text in SQL, or steps in Python, become one typed question here; everything else is refused with its place."""
