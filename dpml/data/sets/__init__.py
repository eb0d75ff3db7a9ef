"""One module per data set."""
