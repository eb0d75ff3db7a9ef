"""A mapping from parties to bytes of one length, in one buffer."""

from array import array
from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping


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
        if len(set(map(len, entries.values()))) > 1:
            raise ValueError("the contents must have the same length.")
        self._content = b"".join(map(entries.__getitem__, self._parties))

    def __getitem__(self, party: int) -> bytes:
        place = bisect_left(self._parties, party)
        if place == len(self._parties) or self._parties[place] != party:
            raise KeyError(party)
        return self._content[place * self._size : (place + 1) * self._size]

    def items(self) -> ItemsView[int, bytes]:
        """Return all entries as those of a dict, which is faster than a look-up for each."""
        content, size = self._content, self._size
        return {who: content[k * size : (k + 1) * size] for k, who in enumerate(self._parties)}.items()

    def __iter__(self) -> Iterator[int]:
        return iter(self._parties)

    def __len__(self) -> int:
        return len(self._parties)
