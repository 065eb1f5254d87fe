"""Parse SQL text, or steps in Python, into one typed query; anything else is refused with its position."""
