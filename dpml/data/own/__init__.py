"""Rows of a user's own file: reading it, types of columns, labels, and ranges that a file states."""
