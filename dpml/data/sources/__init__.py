"""Raw files: where they are, how they are downloaded, and the cache of parsed arrays."""
