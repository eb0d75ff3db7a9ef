"""Export the types for data sets: `Info` (metadata), `Files` (places of raw files), and `Dataset` (arrays)."""

from dpml.data.dataset import Dataset, Source, check_rows, checksum, sha256, training_rows
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
    "training_rows",
]
