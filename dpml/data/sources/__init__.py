"""The location of raw files, downloads, and the cache of parsed arrays."""
