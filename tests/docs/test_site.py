"""The built site is whole, and it asks no other host for anything."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow

LOADED = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src") | {"object": "data"}
RELATIONS = {"stylesheet", "icon", "shortcut icon", "preload", "modulepreload", "prefetch", "preconnect"}
ELSEWHERE = re.compile(r"(?:https?:)?//")


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.places = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.places |= {own[key] for key in ("id", "name") if own.get(key)}
        if tag in LOADED and own.get(LOADED[tag]):
            self.loads.append(own[LOADED[tag]])
        if tag == "link" and own.get("rel") in RELATIONS:
            self.loads.append(own["href"])
        if tag == "a" and own.get("href"):
            self.links.append(own["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}


def test_it_has_every_part_and_loads_nothing_from_elsewhere(site, pages):
    for name in ("start", "reference/index", "tutorials/figure", "gallery/kang2019/claims", "tour/nine_steps"):
        assert site / f"{name}.html" in pages
    assert len(pages) > 150
    assert not {f"{path}: {link}" for path, page in pages.items() for link in page.loads if ELSEWHERE.match(link)}
    style = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"';]*")
    script = re.compile(
        r"(?:fetch|import|importScripts|\.open|\.src\s*=|\.href\s*=)\s*\(?\s*[\"'`](?:https?:)?//[^\"'`]*"
    )
    for path in site.rglob("*"):
        if path.suffix in (".css", ".js", ".html"):
            pattern = script if path.suffix == ".js" else style
            assert not pattern.findall(path.read_text(encoding="utf-8")), path


def test_internal_links_lead_somewhere(site, pages):
    dead = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead, "\n".join(dead)
