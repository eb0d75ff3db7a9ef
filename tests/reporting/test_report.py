"""The report page: what is in it, and how it behaves in a real browser (marked `browser`: needs chromium)."""

import base64
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from html.parser import HTMLParser

import hydra
import pytest

from dpml.config.compose import initialise
from dpml.errors import UserError
from dpml.reporting.html import write_report
from dpml.running.runner import Options, reproduce
from dpml.running.spec import Expansion, Experiment

CONTENT = {
    "title": "Tiny <figure>",
    "source": "nobody, 2000",
    "note": "A note.",
    "settings": {"dataset": "synthetic", "dataset.d": 3, "algo": ["nonpriv", "capefm", "conv"], "M": 2, "draws": 3},
    "grid": {"d20_eps": {"N": 200, "eps": [0.1, 1, 10], "seed": [0, 1], "calibration": ["published", "tight"]}},
    "panels": [{"block": "d20_eps", "x": "eps", "y": "loss", "published": "synth20_eps"}],
    "claims": ["I3.1"],
}


def report_of(content, results):
    with initialise():
        expansion = Expansion.of(hydra.compose("config"), [])
        experiment = Experiment.of("imtiaz2019/tiny", content)
        assert reproduce(experiment, expansion, Options(), results, ["experiment=imtiaz2019/tiny"]) == 0
    return write_report(results)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report_of(CONTENT, tmp_path_factory.mktemp("results"))


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.outside, self.ids, self.used = [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        for key in ("src", "href", "xlink:href"):
            target = values.get(key) or ""
            (self.used if target.startswith("#") else self.outside).append(target.removeprefix("#"))


def test_the_page_needs_nothing_but_itself(page):
    links = Links()
    links.feed(page.read_text("utf-8"))
    assert {target for target in links.outside if target and not target.startswith("data:")} == set()
    assert len(links.ids) == len(set(links.ids))
    assert set(links.used) <= set(links.ids)


def test_the_page_says_what_the_results_say(page):
    text = page.read_text("utf-8")
    assert "Tiny &lt;figure&gt;" in text
    assert "dpml-run experiment=imtiaz2019/tiny" in text
    assert re.search(r"I3\.1.*class=\"verdict", text)
    assert "published calibration" in text
    assert "tight calibration" in text
    assert page.read_bytes() == write_report(page.parent).read_bytes()


def test_one_figure_of_all_calibrations_has_the_guarantees_of_each(tmp_path):
    text = report_of(CONTENT | {"twins": False, "claims": []}, tmp_path).read_text("utf-8")
    assert "published, tight calibration" in text
    assert text.count("<figure>") == 1
    for calibration in ("published", "tight"):
        assert f"Guarantees, {calibration}" in text


def test_no_results_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="no results of experiments"):
        write_report(tmp_path)


class Browser:
    """Just enough of the WebDriver protocol to look at a page."""

    def __init__(self, profile):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.driver = subprocess.Popen([shutil.which("chromedriver"), f"--port={self.port}"], stdout=subprocess.DEVNULL)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
        flags += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": flags, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        self.session = ""
        for _ in range(100):
            try:
                self.session = "/" + self("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
                break
            except ConnectionError:
                time.sleep(0.1)
            except OSError as error:
                if not isinstance(getattr(error, "reason", None), ConnectionError):
                    raise
                time.sleep(0.1)

    def __call__(self, method, path, body=None):
        url = f"http://127.0.0.1:{self.port}" + (f"/session{self.session}" if self.session_made else "") + path
        request = urllib.request.Request(url, json.dumps(body or {}).encode() if method == "POST" else None)
        request.method = method
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    @property
    def session_made(self):
        return bool(self.session)

    def run(self, script):
        return self("POST", "/execute/sync", {"script": script, "args": []})

    def resize(self, width, height):
        self("POST", "/window/rect", {"width": width, "height": height})

    def picture(self, path):
        path.write_bytes(base64.b64decode(self("GET", "/screenshot")))

    def close(self):
        try:
            self("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("chromium and chromedriver are not installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.browser
def test_it_works_in_a_browser(page, browser, tmp_path):
    browser("POST", "/url", {"url": page.as_uri()})
    assert [entry for entry in browser("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"] == []

    def column(number):
        script = "return [...document.querySelectorAll('.rows tbody')][0]"
        return browser.run(
            f"{script}.querySelectorAll('tr').values().map(r => r.cells[{number}].textContent).toArray()"
        )

    heads = browser.run(
        "return [...document.querySelectorAll('.rows')[0].querySelectorAll('th')].map(h => h.textContent)"
    )
    mean, algo = heads.index("mean"), heads.index("algo")
    assert len(column(algo)) == 9
    click = f"document.querySelectorAll('.rows')[0].querySelectorAll('th button')[{mean}].click()"
    browser.run(click)
    rising = [float(value) for value in column(mean)]
    assert rising == sorted(rising)
    browser.run(click)
    assert [float(value) for value in column(mean)] == rising[::-1]
    browser.run(
        "const i = document.querySelector('.rows input'); i.value = 'capefm'; i.dispatchEvent(new Event('input'))"
    )
    assert set(column(algo)) == {"capefm"}
    assert browser.run("return document.querySelector('.rows .count').textContent") == "3 of 9 rows"

    for name, width, height in (("phone", 390, 844), ("desktop", 1280, 900)):
        browser.resize(width, height)
        browser.picture(tmp_path / f"{name}.png")
        # nothing sticks out: what is wide scrolls in a box of its own
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth"), name
    assert [entry for entry in browser("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"] == []
