"""Files of published objects: one sealed format, in which every edit is detected."""
