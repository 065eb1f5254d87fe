"""Every release goes one way: it is prepared without data, charged, read, drawn, written down, and then shown."""
