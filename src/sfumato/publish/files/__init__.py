"""Published objects are kept in files of one form, which say what they hold and prove that nothing was changed."""
