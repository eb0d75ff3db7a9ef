"""Find and download the raw files of data sets, and keep parsed arrays in a cache."""
