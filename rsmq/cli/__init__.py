"""Programs for the command line, a module each."""
