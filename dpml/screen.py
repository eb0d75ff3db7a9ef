"""Rich's console, which escapes control characters of other people's files."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from dpml.printable import printable


class Screen(Console):
    """Rich's console for `printable` text, without markup, emoji codes or highlighting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.width:  # COLUMNS=0: the shell does not know the width
            self.width = 80

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield Rich's segments with printable text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
