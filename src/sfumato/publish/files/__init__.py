"""Files of published objects: one sealed format, in which an edit is detected unless the file is sealed anew."""
