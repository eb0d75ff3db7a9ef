"""Read and describe the user's own file: its columns, its labels, and the bounds file that declares them."""
