"""Bytes of one length for each of many parties, without an object for each."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping


class Packed(Mapping[int, bytes]):
    """An immutable mapping from parties to bytes of one length, ascending, in one buffer.

    With thousands of parties in one process, each of which holds keys of hundreds of neighbours, a dict of bytes would
    take several times the memory of the keys.

    Raises:
        ValueError: the lengths differ.
    """

    def __init__(self, entries: Mapping[int, bytes]) -> None:
        self._parties = array("I", sorted(entries))
        self._size = len(next(iter(entries.values()), b""))
        if any(len(content) != self._size for content in entries.values()):
            raise ValueError("the contents must have the same length.")
        self._content = b"".join(entries[party] for party in self._parties)

    def __getitem__(self, party: int) -> bytes:
        place = bisect_left(self._parties, party)
        if place == len(self._parties) or self._parties[place] != party:
            raise KeyError(party)
        return self._content[place * self._size : (place + 1) * self._size]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parties)

    def __len__(self) -> int:
        return len(self._parties)
