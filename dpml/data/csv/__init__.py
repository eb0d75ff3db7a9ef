"""The user's own file: how it is read, the types of its columns, its labels, and its bounds file."""
