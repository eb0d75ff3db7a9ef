"""The terminal: Rich's console, by which no control character of a file that others wrote gets there."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from dpml.printable import printable


class Screen(Console):
    """Rich's console, with all texts `printable` and as they are: no word of them means a colour or a picture."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.width:  # COLUMNS=0, by which shells say that they do not know
            self.width = 80

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
