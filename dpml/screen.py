"""The terminal: Rich's console, by which no control character of a file that others wrote gets there."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from dpml.printable import printable


class Screen(Console):
    """Rich's console, with all texts `printable`; the colours that it adds itself are left."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
