"""Where data are read: statements we write, on engines we drive."""
