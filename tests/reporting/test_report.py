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
import numpy as np
import pandas as pd
import pytest
from omegaconf import open_dict

from dpml import where
from dpml.cli.jobs import compute_jobs, experiment_jobs, write_jobs
from dpml.config.compose import initialise
from dpml.errors import UserError
from dpml.reporting.html import _packed, write_report
from dpml.reporting.manifest import Manifest, manifests
from dpml.reporting.pages import claims_page
from dpml.running.plan import Options

CONTENT = {
    "title": "Tiny <figure>",
    "source": "nobody, 2000",
    "note": "A *note* about `<algo>` and w* or v*.",
    "settings": {"dataset": "synthetic", "dataset.d": 3, "algo": ["nonpriv", "capefm", "conv"], "M": 2, "draws": 3},
    "grid": {"d20_eps": {"N": 200, "eps": [0.1, 1, 10], "seed": [0, 1], "calibration": ["published", "tight"]}},
    "panels": [{"block": "d20_eps", "x": "eps", "y": "loss", "published": "synth20_eps"}],
}


CLAIM = {
    "id": "I3.1", "text": "The loss falls.", "criterion": "by eye", "decision": "reproduced", "numbers": "[true] 2 to 1"
}  # fmt: skip


def report_of(content, results, claims=()):
    """The report on one experiment that is no file, with these verdicts."""
    with initialise():
        config = hydra.compose("config", [f"results_dir={results}"])
        with open_dict(config):
            config.experiment = content
        jobs = experiment_jobs(config, ["experiment=imtiaz2019/tiny"], [where.folder("experiments")])
    computed, status = compute_jobs(jobs, Options(), results, "dpml-run")
    assert all(written.error is None for written in write_jobs(computed, jobs, stopped=bool(status)))
    manifest = Manifest(results / "imtiaz2019" / "tiny.json")
    manifest.keep(manifest.read() | {"claims": claims})
    return write_report(results)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report_of(CONTENT, tmp_path_factory.mktemp("results"), [CLAIM])


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
    assert "A <em>note</em> about <code>&lt;algo&gt;</code> and w* or v*." in text
    assert "dpml-run experiment=imtiaz2019/tiny" in text
    assert re.search(r"I3\.1.*class=\"verdict", text)
    assert "published calibration" in text
    assert "tight calibration" in text
    assert page.read_bytes() == write_report(page.parent).read_bytes()


def test_one_figure_of_all_calibrations_has_the_guarantees_of_each(tmp_path):
    text = report_of(CONTENT | {"twins": False}, tmp_path).read_text("utf-8")
    assert "published, tight calibration" in text
    assert text.count("<figure><svg") == 1
    for calibration in ("published", "tight"):
        assert f"Guarantees, {calibration}" in text


def manifest(results, name, **about):
    path = results / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"experiment": name} | about), encoding="utf-8")


def claim(name, decision):
    return {"id": name, "text": f"What {name} says.", "criterion": "", "decision": decision, "numbers": ""}


def test_the_page_opens_with_what_is_there_by_paper_and_as_one_counts(tmp_path):
    for name in ("fig10", "fig2"):
        manifest(tmp_path, f"kang2019/{name}", claims=[claim(f"K{name}", "reproduced")])
    manifest(tmp_path, "audit/all")
    manifest(tmp_path, "hamm2016/fig3", claims=[claim("H1", "not reproduced"), claim("H2", "reproduced")])
    text = write_report(tmp_path).read_text("utf-8")
    overview = text[text.index("<nav") : text.index("</nav>")]
    assert re.findall(r'href="#([^"]+)"', overview) == [
        "hamm2016", "hamm2016-fig3", "kang2019", "kang2019-fig2", "kang2019-fig10", "audit", "audit-all"
    ]  # fmt: skip
    hamm = re.search(r"<tr><td><a[^>]*>hamm2016.*?</tr>", overview)[0]
    assert re.findall(r"<td>(\d*)</td>", hamm) == ["2", "1", "1", "", "", ""]
    assert 'data-verdict="reproduced">reproduced: 3</button>' in text
    assert 'data-verdict="not reproduced">not reproduced: 1</button>' in text
    sections = re.findall(r'<section id="([^"]+)"', text)
    assert sections == ["hamm2016-fig3", "kang2019-fig2", "kang2019-fig10", "audit-all"]


def test_all_pages_have_one_order_and_it_counts(tmp_path):
    for name in ("fig10", "fig2", "fig1"):
        manifest(tmp_path, f"kang2019/{name}", title=name, command="", claims=[claim(f"K{name}", "reproduced")])
    assert [about["experiment"][9:] for about in manifests(tmp_path)] == ["fig1", "fig2", "fig10"]
    page = write_report(tmp_path).read_text("utf-8")
    assert re.findall(r">(K[^<]+)</a>", page) == ["Kfig1", "Kfig2", "Kfig10"]
    assert re.findall(r"\| (Kfig\d+) ", claims_page(manifests(tmp_path))) == ["Kfig1", "Kfig2", "Kfig10"]


def test_what_seeds_would_decide_is_said(tmp_path):
    undecided = claim("K1", "undecided with these seeds") | {"needed": 37}
    decided = claim("K2", "reproduced") | {"needed": None}
    manifest(tmp_path, "kang2019/fig1", title="", command="", claims=[undecided, decided])
    page = write_report(tmp_path).read_text("utf-8")
    assert page.count("37 seeds would decide") == 1
    assert 'class="verdict undecided">undecided with these seeds' in page
    assert ".verdict.undecided" in page
    assert "None" not in page
    text = claims_page(manifests(tmp_path))
    assert "| undecided with these seeds (37 would decide) |" in text
    assert "None" not in text


def test_manifests_of_other_versions_are_shown_as_far_as_they_go(tmp_path):
    manifest(tmp_path, "a/bare")
    manifest(tmp_path, "a/environment", environment={"commit": "0123abc", "versions": {"numpy": "2"}})
    manifest(tmp_path, "a/odd", claims=[None, {"id": "X1"}], panels="none", guarantees={"published": None}, skipped=[])
    files = {"missing.csv": "0"}
    manifest(tmp_path, "a/missing", guarantees={"published": {"columns": [], "data": []}}, files=files)
    for name, content in (("list", "[]"), ("null", "null"), ("cut", '{"exp'), ("number", "3")):
        (tmp_path / "a" / f"{name}.json").write_text(content, encoding="utf-8")
    text = write_report(tmp_path).read_text("utf-8")
    assert re.findall(r'<section id="([^"]+)"', text) == ["a-bare", "a-environment", "a-missing", "a-odd"]
    assert "0123abc" in text
    assert text.count("<summary>Environment</summary>") == 1
    assert "missing.csv" in text


def test_no_picture_and_no_number_stands_there_twice(page):
    text = page.read_text("utf-8")
    assert text.count("<figure><svg") == 2  # one for each calibration
    assert ' style="' not in text[text.index("<main>") :]  # but classes, which most pictures share
    packed = re.search(r'<script type="application/json">(.*?)</script>', text)[1]
    columns = dict(zip(*(json.loads(packed)[key] for key in ("columns", "data")), strict=True))
    assert "dataset" not in columns  # the same in all lines, and said above them
    assert "dataset=synthetic" in text
    table = pd.read_csv(page.parent / "imtiaz2019" / "tiny.csv")
    assert columns["algo"] == table["algo"].tolist()
    np.testing.assert_allclose(columns["mean"], table["mean"])


def test_columns_of_few_values_are_packed():
    table = pd.DataFrame({"algo": ["a", "b"] * 5, "eps": [0.5, np.inf] * 5, "mean": np.arange(10) + 0.25})
    packed = dict(zip(*_packed(table).values(), strict=True))
    assert packed["algo"] == {"levels": ["a", "b"], "codes": [0, 1] * 5}
    assert packed["eps"]["levels"] == [0.5, "∞"]  # JSON has no infinity
    assert packed["mean"] == table["mean"].tolist()


def contrast(one, other):
    """The contrast ratio of two colours, as WCAG 2 defines it."""

    def luminance(colour):
        digits = colour.lstrip("#")
        digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
        channels = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_light_and_dark_can_be_read(page):
    style = re.search(r"<style>(.*?)</style>", page.read_text("utf-8"), re.DOTALL)[1]
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", part)) for part in style.split("@media", 2)[:2])
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        for text, paper in [("ink", "paper"), ("ink", "shade"), ("faint", "paper"), ("link", "paper")] + [
            (kind, f"{kind}-paper") for kind in ("good", "bad", "open", "maybe")
        ]:
            assert contrast(colours[text], colours[paper]) >= 4.5, (text, paper)


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

    script = "return document.querySelectorAll('.rows')[0].querySelectorAll('tbody tr').length"
    assert browser.run(script) == 0  # filled when it is opened
    browser.run("document.querySelector('.rows').open = true")
    browser.run("return new Promise((done) => setTimeout(done, 200))")
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

    lines = "return [...document.querySelectorAll('.claims tbody tr')].filter((line) => !line.hidden).length"
    assert browser.run(lines) == 1
    for expected in (1, 1):  # pressed and released: the only verdict there is
        browser.run("document.querySelector('.claims button[data-verdict]').click()")
        assert browser.run(lines) == expected
    browser.run(
        "const i = document.querySelector('.claims input'); i.value = 'zebra'; i.dispatchEvent(new Event('input'))"
    )
    assert browser.run(lines) == 0
    assert browser.run("return document.querySelector('.claims .count').textContent") == "0 of 1 claims"

    for name, width, height in (("phone", 390, 844), ("desktop", 1280, 900)):
        browser.resize(width, height)
        browser.picture(tmp_path / f"{name}.png")
        # nothing sticks out: what is wide scrolls in a box of its own
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth"), name
    assert [entry for entry in browser("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"] == []
