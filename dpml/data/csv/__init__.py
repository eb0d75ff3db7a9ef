"""Read and describe the user's own data file, its labels, and its bounds file with the columns' public ranges."""
