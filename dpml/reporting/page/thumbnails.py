"""Small pictures of figures, embedded in the page."""

import base64
import io
from pathlib import Path

from PIL import Image, UnidentifiedImageError

WIDTH, HEIGHT = 300, 225  # pixels: more than a page shows, for high-resolution screens


def thumbnail(path: Path) -> tuple[str, int, int] | None:
    """A picture as a data URL, its width and its height; None if the file is not a picture.

    WebP needs half the size of a PNG of 16 colours, and the curves keep their colours.
    """
    try:
        with Image.open(path) as whole:
            picture = whole.convert("RGB")
    except (OSError, UnidentifiedImageError):
        return None
    factor = int(max(picture.width / WIDTH, picture.height / HEIGHT))
    picture = picture.reduce(factor) if factor > 1 else picture
    picture.thumbnail((WIDTH, HEIGHT), Image.Resampling.BILINEAR)
    content = io.BytesIO()
    picture.save(content, "WEBP", quality=40, method=4)
    return f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}", *picture.size
