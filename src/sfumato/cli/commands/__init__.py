"""One module is one command of the command line, imported when it is named."""
