"""Data sets: their metadata (`Info`), the location of their files (`Files`), and the arrays of a run (`Dataset`)."""

from dpml.data.dataset import Dataset, Source, check_rows, checksum, sha256, split_rows, training_rows
from dpml.data.info import Info, Range, Raw, Task
from dpml.data.sources.files import Files

__all__ = [
    "Dataset",
    "Files",
    "Info",
    "Range",
    "Raw",
    "Source",
    "Task",
    "check_rows",
    "checksum",
    "sha256",
    "split_rows",
    "training_rows",
]
