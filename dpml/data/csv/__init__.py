"""The user's own file: reading it, types of columns, labels, and ranges stated in a second file."""
