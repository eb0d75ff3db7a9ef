"""Small pictures of figures, in the page itself."""

import base64
import io
from pathlib import Path

from PIL import Image, UnidentifiedImageError

WIDTH, HEIGHT = 300, 225  # more than a page shows, for screens of many dots


def thumbnail(path: Path) -> tuple[str, int, int] | None:
    """A picture as a data address, its width and its height; None where the file is no picture.

    WebP has half the size of a PNG of 16 colours, and the curves keep theirs.
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
