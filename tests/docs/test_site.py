"""The built site: it is whole, it asks no other host for anything, and a browser has no complaint."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow

LOADED = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src") | {"object": "data"}
RELATIONS = {
    "stylesheet",
    "icon",
    "shortcut icon",
    "preload",
    "modulepreload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
}
ELSEWHERE = re.compile(r"(?:https?:)?//")


class Page(HTMLParser):
    """What a page loads, where it leads, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.places, self.formulas = [], [], set(), 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.places |= {own[key] for key in ("id", "name") if own.get(key)}
        self.formulas += tag == "math"
        if tag in LOADED and own.get(LOADED[tag]):
            self.loads.append(own[LOADED[tag]])
        if tag == "link" and own.get("rel") in RELATIONS:
            self.loads.append(own["href"])
        if tag == "a" and own.get("href"):
            self.links.append(own["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}


def test_it_has_every_part(site, pages):
    for name in ("start", "concepts", "howto/index", "reference/index", "papers/index", "privacy"):
        assert site / f"{name}.html" in pages
    for name in ("gallery/index", "gallery/kang2019/claims", "changelog", "tour/nine_steps"):
        assert site / f"{name}.html" in pages
    assert len(pages) > 150
    front = set(pages[site / "index.html"].links)
    assert {"start.html", "reference/index.html", "gallery/index.html", "changelog.html"} <= front


def test_pages_load_nothing_from_elsewhere(pages):
    wrong = {f"{path}: {link}" for path, page in pages.items() for link in page.loads if ELSEWHERE.match(link)}
    assert not wrong
    assert sum(len(page.loads) for page in pages.values()) > len(pages)


def test_styles_and_scripts_load_nothing_from_elsewhere(site):
    style = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"';]*")
    script = re.compile(
        r"(?:fetch|import|importScripts|\.open|\.src\s*=|\.href\s*=)\s*\(?\s*[\"'`](?:https?:)?//[^\"'`]*"
    )
    wrong = []
    for path in site.rglob("*"):
        if path.suffix in (".css", ".js", ".html"):
            found = (script if path.suffix == ".js" else style).findall(path.read_text(encoding="utf-8"))
            wrong += [f"{path.relative_to(site)}: {text}" for text in found]
    assert not wrong


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


BROWSER = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync", "--enable-logging=stderr"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND"]
REQUEST = "URL_REQUEST_START_JOB"


def looked_at(page, folder):
    """Which hosts a page asks, in a browser without network, what its scripts complain of, and what they made of it."""
    log = folder / "net.json"
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
    command += ["--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    constants, *lines = log.read_text(encoding="utf-8").splitlines()
    number = json.loads(constants.rstrip(",") + "}")["constants"]["logEventTypes"][REQUEST]
    # an event a line; a browser that stops early leaves the last one open
    events = [json.loads(line.rstrip(",")) for line in lines if f'"type":{number}' in line and line.endswith("},")]
    asked = [event["params"] for event in events if event["type"] == number and "url" in event.get("params", {})]
    # what the browser asks for itself (the time, its own updates) no page began
    urls = [urlsplit(each["url"]) for each in asked if each["initiator"] != "not an origin"]
    hosts = {url.hostname for url in urls if url.scheme in ("http", "https", "ws", "wss")}
    said = re.findall(r'CONSOLE.*?\] "(.*)", source', done.stderr)
    # the theme tells of its mode
    return hosts, [words for words in said if not words.startswith("[PST]")], done.stdout


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    "name", ["index", "privacy/imtiaz2019", "reference/algorithms/capefm", "gallery/imtiaz2019/fig4", "tour/nine_steps"]
)
def test_a_browser_without_network_has_no_complaint(site, tmp_path, name):
    hosts, complaints, content = looked_at(site / f"{name}.html", tmp_path)
    assert (hosts, complaints) == (set(), [])
    assert "data-theme=" in content  # scripts ran


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_the_browser_tells_of_what_is_wrong(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<script src="https://script.example.org/x.js"></script><img src="https://picture.example.org/a.png">'
        '<iframe src="https://frame.example.org/"></iframe><link rel="stylesheet" href="https://style.example.org/a.css">'
        '<script>fetch("https://fetch.example.org/"); new WebSocket("wss://socket.example.org/"); nothing()</script>'
    )
    hosts, complaints, _ = looked_at(page, tmp_path)
    ways = ("script", "picture", "frame", "style", "fetch", "socket")
    assert hosts == {f"{way}.example.org" for way in ways}
    assert any("nothing is not defined" in words for words in complaints)
