"""Where raw files lie, downloads, and the cache of parsed arrays."""
