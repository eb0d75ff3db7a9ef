"""The report: what is on its pages, how much they weigh, and what is said of inputs that are missing or damaged."""

import base64
import gzip
import json
import math
import re
import shutil
from collections import Counter
from decimal import ROUND_CEILING, Decimal
from html.parser import HTMLParser
from typing import get_args
from urllib.parse import urlsplit

import hydra
import numpy as np
import pandas as pd
import pytest
from harness import drawn
from omegaconf import open_dict

from dpml import paths
from dpml.api.jobs import compute_jobs, experiment_jobs, write_jobs
from dpml.config.compose import initialise
from dpml.errors import UserError
from dpml.reporting import outputs, whole_table
from dpml.reporting.artifacts import claims_pages
from dpml.reporting.claims import Decision
from dpml.reporting.html import DECISIONS, block, inline, write_report
from dpml.reporting.manifest import Manifest, manifests
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
    "id": "I3.1", "text": "The loss falls.", "criterion": "by eye", "decision": "reproduced",
    "readings": [{"name": "true", "outcome": "holds", "lacks": [], "groups": []}]
}  # fmt: skip


def report_of(content, results, claims=()):
    """The report on one experiment that is no file, with these verdicts."""
    with initialise():
        config = hydra.compose("config", [f"results_dir={results}"])
        with open_dict(config):
            config.experiment = content
        jobs = experiment_jobs(config, ["experiment=imtiaz2019/tiny"], [paths.folder("experiments")])
    computed, status = compute_jobs(jobs, Options(), results, "dpml-run")
    assert all(written.error is None for written in write_jobs(computed, jobs, stopped=bool(status)))
    manifest = Manifest(results / "imtiaz2019" / "tiny.json")
    manifest.keep(manifest.read() | {"claims": claims})
    return write_report(results)


@pytest.fixture(scope="module", autouse=True)
def papers_without_cards():
    """The names of these results are those of packs, whose other claims would be there as not computed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpml.reporting.outputs.claims_of", lambda pack: {})
        yield


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """The start page of a report about one experiment."""
    with drawn("svg"):
        return report_of(CONTENT, tmp_path_factory.mktemp("results"), [CLAIM])


@pytest.fixture(scope="module")
def page(start):
    """The page of that experiment's paper."""
    return start.with_name("imtiaz2019.html").read_text("utf-8")


class Links(HTMLParser):
    """The identifiers of a page, and all addresses in it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.addresses, self.tags = [], [], Counter()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        for key, value in attributes:
            if key == "id":
                self.ids.append(value)
            elif key in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                self.addresses.append(value)


def check_links(folder):
    """Every address is one of the report's own, of a file beside it, or of data; nothing is asked of any host."""
    pages = {path.name: Links(path.read_text("utf-8")) for path in folder.glob("*.html")}
    for name, links in pages.items():
        assert len(links.ids) == len(set(links.ids)), name
        for address in links.addresses:
            parts = urlsplit(address)
            assert (parts.scheme in ("", "data"), parts.netloc) == (True, ""), address
            if parts.scheme == "data":
                continue
            target = parts.path or name
            if target in pages:
                assert not parts.fragment or parts.fragment in pages[target].ids, address
            else:
                assert (folder / target).is_file(), address
    for path in folder.iterdir():  # pages, and the script that they load
        text = path.read_text("utf-8")
        assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|<iframe|<link rel=(?!\"icon)", text)
    return pages


def test_the_pages_need_nothing_but_themselves(start):
    pages = check_links(start.parent)
    assert set(pages) == {"index.html", "claims.html", "imtiaz2019.html"}


def test_the_page_says_what_the_results_say(start, page):
    assert "Tiny &lt;figure&gt;" in page
    assert "A <em>note</em> about <code>&lt;algo&gt;</code> and w* or v*." in page
    assert "dpml-run experiment=imtiaz2019/tiny" in page
    assert re.search(r"I3\.1.*class=\"verdict good", page)
    assert "tiny, tight noise" in page
    assert "Mean ± half a 95 % interval (2 seeds, 3 draws each)" in page  # what intervals are over
    before = {path.name: path.read_bytes() for path in start.parent.iterdir()}
    write_report(start.parent.parent)
    assert {path.name: path.read_bytes() for path in start.parent.iterdir()} == before


def test_pictures_have_their_place_before_they_are_loaded(start, page):
    svg = (start.parents[1] / "imtiaz2019" / "tiny.svg").read_text("utf-8")
    points = re.search(r'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()
    pixels = re.search(r'<img src="../imtiaz2019/tiny.svg" width="(\d+)" height="(\d+)"', page).groups()
    assert list(map(int, pixels)) == [pytest.approx(float(size) * 4 / 3, abs=0.5) for size in points]


@pytest.mark.slow
def test_one_figure_of_all_calibrations_is_there_once(tmp_path):
    start = report_of(CONTENT | {"twins": False}, tmp_path)
    text = start.with_name("imtiaz2019.html").read_text("utf-8")
    assert text.count("<figure>") == 1
    assert "tight noise" not in start.read_text("utf-8")


def manifest(results, name, **about):
    path = results / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"experiment": name} | about), encoding="utf-8")


def claim(name, decision):
    return {"id": name, "text": f"What {name} says.", "criterion": "", "decision": decision}


def rows_of(text, label):
    """The lines of the table that has this name, as texts."""
    whole = text.split(f'aria-label="{label}"')[1].split("</table>")[0]
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.split(r"<t[dh][^>]*>", line)[1:]]
        for line in whole.split("<tr>")
    ]


def test_the_start_page_counts_verdicts_by_paper(tmp_path):
    for name in ("fig10", "fig2"):
        manifest(tmp_path, f"kang2019/{name}", claims=[claim(f"K{name}", "reproduced")])
    manifest(tmp_path, "audit/all")
    manifest(
        tmp_path, "hamm2016/fig3", source="Hamm & al. 2016, Fig. 3",
        claims=[claim("H1", "not reproduced"), claim("H2", "reproduced"), claim("H3", "reproduced")],
    )  # fmt: skip
    start = write_report(tmp_path)
    assert rows_of(start.read_text("utf-8"), "Verdicts by paper")[2:] == [
        ["Hamm &amp; al. 2016", "2", "", "", "1", "", "", "3", ""],
        ["Kang2019", "2", "", "", "", "", "", "2", ""],
        ["all", "4", "", "", "1", "", "", "5", ""],
    ]
    pages = re.findall(r'href="([^"]+)"', start.read_text("utf-8").split("</nav>")[0].split("<nav")[1])
    assert pages == ["index.html", "claims.html", "hamm2016.html", "kang2019.html", "audit.html"]
    ledger = start.with_name("claims.html").read_text("utf-8")
    lines = [re.findall(r">([^<>]+)<", line) for line in ledger.split("<tbody>")[1].split("<tr>")[1:]]
    assert [[cell.strip() for cell in line if cell.strip()][:3] for line in lines] == [
        ["Hamm &amp; al. 2016", "H1", "not reproduced"],
        ["Hamm &amp; al. 2016", "H2", "reproduced"],
        ["Hamm &amp; al. 2016", "H3", "reproduced"],
        ["Kang2019", "Kfig2", "reproduced"],
        ["Kang2019", "Kfig10", "reproduced"],
    ]


def test_a_folder_that_is_called_as_a_page_of_all_papers_takes_the_place_of_none(tmp_path):
    for pack in ("claims", "index", "kang2019"):
        manifest(tmp_path, f"{pack}/fig1", claims=[claim(f"{pack}.1", "reproduced")])
    start = write_report(tmp_path)
    ledger = start.with_name("claims.html").read_text("utf-8")
    assert all(f">{pack}.1<" in ledger for pack in ("claims", "index", "kang2019"))
    assert "Verdicts by paper" in start.read_text("utf-8")
    for pack in ("claims", "index"):
        assert f"{pack}.1" in start.with_name(f"paper-{pack}.html").read_text("utf-8")


def test_every_verdict_has_a_colour_of_its_own_order():
    assert sorted(DECISIONS) == sorted(get_args(Decision))


def test_all_pages_have_one_order_and_it_counts(tmp_path):
    for name in ("fig10", "fig2", "fig1"):
        manifest(tmp_path, f"kang2019/{name}", title=name, command="", claims=[claim(f"K{name}", "reproduced")])
    assert [about["experiment"][9:] for about in manifests(tmp_path)] == ["fig1", "fig2", "fig10"]
    page = write_report(tmp_path).with_name("kang2019.html").read_text("utf-8")
    assert re.findall(r"<b>(K[^<]+)</b>", page) == ["Kfig1", "Kfig2", "Kfig10"]
    assert re.findall(r'<section id="(fig\d+)" ', page) == ["fig1", "fig2", "fig10"]
    assert re.findall(r"\| (Kfig\d+) ", claims_pages(manifests(tmp_path))["claims.md"]) == [
        "Kfig1",
        "Kfig2",
        "Kfig10",
    ]


def test_manifests_of_other_versions_are_shown_as_far_as_they_go(tmp_path, capsys):
    manifest(tmp_path, "a/bare")
    manifest(tmp_path, "a/environment", environment={"git": {"commit": "0123abc"}, "versions": {"numpy": "2"}})
    manifest(tmp_path, "a/odd", claims=[None, {"id": "X1"}], panels="none", figures=None, skipped=[])
    manifest(tmp_path, "a/rankings", rankings=[None, {"choices": []}])
    figure = {"name": "missing", "twin": None, "sections": []}
    manifest(tmp_path, "a/missing", figures=[figure], files={"missing.csv": "0"})
    manifest(tmp_path, "a/older", guarantees={"published": {}}, files={"older.csv": "0"}, command="dpml-run older")
    for name, content in (("list", "[]"), ("null", "null"), ("cut", '{"exp'), ("number", "3")):
        (tmp_path / "a" / f"{name}.json").write_text(content, encoding="utf-8")
    text = write_report(tmp_path).with_name("a.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)" class="experiment"', text) == [
        "bare",
        "environment",
        "missing",
        "odd",
        "older",
        "rankings",
    ]
    assert "Written by another version of dpml. The command makes its figures again." in text
    assert text.count("Made by commit 0123abc, numpy 2.") == 1
    assert "Not as written: missing.csv. The command makes it again." in text
    # a line each: four that are no manifests, and one figure that is not as it was written
    assert len(capsys.readouterr().err.splitlines()) == 5


@pytest.mark.parametrize("kind", ["csv", "md", "svg"])
def test_nothing_of_a_damaged_figure_is_shown(start, tmp_path, capsys, kind):
    results = shutil.copytree(start.parents[1], tmp_path / "results")
    path = results / "imtiaz2019" / f"tiny.{kind}"
    path.write_bytes(path.read_bytes()[:100])
    start = write_report(results)
    assert capsys.readouterr().err.splitlines() == [
        f"note: {path.parent}: not as written: {path.name}; make it again: dpml-run experiment=imtiaz2019/tiny"
    ]
    page = start.with_name("imtiaz2019.html").read_text("utf-8")
    assert f"Not as written: {path.name}. The command makes it again." in page
    # the twin and the verdicts are as they were
    assert re.findall(r'<div id="figure-([\w-]+)"', page) == ["tiny-tight"]
    assert re.findall(r"All columns of ([\w.]+) \(", page) == ["tiny_tight.csv"]
    assert "<b>I3.1</b>" in page
    assert start.read_text("utf-8").count("<img") == 1


def test_a_figure_without_a_picture_or_a_page_of_its_own_is_shown_as_far_as_it_goes(tmp_path):
    figure = {"name": "old", "twin": None, "sections": []}
    manifest(tmp_path, "a/old", figures=[figure], files={"old.csv": None})
    text = write_report(tmp_path).with_name("a.html").read_text("utf-8")
    assert "there is no" in text


def packed(page):
    """The table of the first figure on a page."""
    content = json.loads(gzip.decompress(base64.b64decode(re.search(r'type="application/gzip"[^>]*>(.*?)<', page)[1])))
    return dict(zip(content["heads"], content["columns"], strict=True))


def test_the_whole_table_of_a_figure_is_in_its_page(start, page):
    columns = packed(page)
    assert "dataset" not in columns  # the same in all lines, and said above them
    assert "dataset=synthetic" in page
    written = pd.read_csv(start.parent.parent / "imtiaz2019" / "tiny.csv")
    assert columns["algo"] == written["algo"].tolist()
    np.testing.assert_allclose(columns["mean"], written["mean"], rtol=5e-4)
    assert columns["ε proven"] == list(map(rounded_up, written["proven_eps"]))


def rounded_up(eps):
    """In four digits, never below a proven eps: but a millionth of it is not seen."""
    if np.isinf(eps):
        return "∞"
    seen = Decimal(eps * (1 - 1e-6))
    return float(seen.quantize(Decimal(1).scaleb(seen.adjusted() - 3), ROUND_CEILING))


@pytest.mark.parametrize("eps", [0.123449, 10.394, 10.3942, 1.0000001, 1.0001, 123456.0, math.inf])
def test_a_proven_eps_of_the_whole_table_is_rounded_up(eps):
    table = pd.DataFrame({"mean": [eps], "proven_eps": [eps]})
    content = json.loads(gzip.decompress(base64.b64decode(whole_table.pack(table))))
    assert content["columns"][1] == [rounded_up(eps) if eps != 123456.0 else 123456]


# ---- HTML


def test_markdown_has_no_literal_stars_and_runs_no_html():
    assert (
        inline("*attacked* and `w*`, **b**, nn_cape_x")
        == "<em>attacked</em> and <code>w*</code>, <strong>b</strong>, nn_cape_x"
    )
    assert "<script" not in block("<script>alert(1)</script>\n\n![x](http://host/x.png)")
    assert "<img" not in block("![x](http://host/x.png)")


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


def test_light_and_dark_can_be_read(start):
    styles = re.findall(r"<style[^>]*>(.*?)</style>", start.read_text("utf-8"), re.DOTALL)
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", style)) for style in styles)
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        for text, paper in [
            ("ink", "paper"),
            ("ink", "shade"),
            ("faint", "paper"),
            ("faint", "shade"),
            ("link", "paper"),
        ] + [(kind, f"{kind}-paper") for kind in ("good", "bad", "open", "maybe", "depends")]:
            assert contrast(colours[text], colours[paper]) >= 4.5, (text, paper)


def test_a_link_in_place_of_the_reports_folder_is_not_followed(tmp_path):
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    manifest(results, "a/fig1", claims=[claim("A1", "reproduced")])
    elsewhere.mkdir()
    (elsewhere / "index.html").write_text("mine")
    (results / "report").symlink_to(elsewhere)
    with pytest.raises(UserError, match="report is a link to another folder: remove it"):
        write_report(results)
    assert [(path.name, path.read_text()) for path in elsewhere.iterdir()] == [("index.html", "mine")]


def test_no_results_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="no results of experiments"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---- the results of this repository


@pytest.mark.slow
def test_the_whole_report_is_small_and_asks_no_host(committed):
    figures = len(list(committed.parent.glob("*/*.svg")))
    assert sum(path.stat().st_size for path in committed.iterdir()) < 1_600_000 / 50 * figures  # 1.6 MB for 50
    check_links(committed)


@pytest.mark.slow
def test_every_figure_and_every_verdict_is_there_once(committed):
    texts = {path.stem: path.read_text("utf-8") for path in committed.glob("*.html")}
    known = manifests(committed.parent)
    pictures = list(committed.parent.glob("*/*.svg"))
    assert len(pictures) == Links(texts["index"]).tags["img"] > 50
    for path in pictures:
        assert len(re.findall(f'id="figure-{re.sub("[^A-Za-z0-9]+", "-", path.stem)}"', texts[path.parent.name])) == 1
    assert sum(text.count("<figure>") for text in texts.values()) == len(pictures)
    for about in known:
        text = texts[about["experiment"].partition("/")[0]]
        for each in about["claims"]:
            assert text.count(f"<b>{each['id']}</b>") == 1
    cards = re.findall(r"<b>(fig\d+)</b>", texts["index"].split(">Kang, Liu")[-1])
    assert cards[:16] == [f"fig{number}" for number in range(1, 17)]


@pytest.mark.slow
def test_the_start_page_tells_the_claims_and_the_audit(committed):
    """Beside the audit's own table, read here without the report's code."""
    audit = pd.read_csv(committed.parent / "audit" / "all.csv", keep_default_na=False)
    ours = {
        "Hamm": ["soft", "vote"],
        "Jayaraman": ["jayaraman"],
        "Kang": ["wddp"],
        "Rajkumar": ["gop", "psgd"],
        "Imtiaz": ["fm", "capefm", "conv", "local"],
    }
    table = rows_of(
        (committed / "index.html").read_text("utf-8"), "What each paper claims, what is proven, what an attack reached"
    )
    lines = {line[0].partition(",")[0].partition(" ")[0]: line for line in table[2:]}
    assert set(lines) == set(ours)
    for name, algorithms in ours.items():
        published = audit[
            (audit["noise"] == "published") & (audit["variant"] == "paper") & audit["algo"].isin(algorithms)
        ]
        keys = [key for key in audit if key.startswith("algo") or key in ("loss", "view")]
        wide = published.pivot_table(index=keys, columns="metric", values="mean").dropna(subset=["claimed"])
        worst = wide.sort_values(["proven", "attacked"]).iloc[-1]
        for cell, metric in zip(lines[name][1:4], ("claimed", "proven", "attacked"), strict=True):
            assert float(re.match(r"[\d.]+", cell)[0]) == pytest.approx(worst[metric], rel=6e-3, abs=1e-9), (
                name,
                metric,
            )


def test_a_manifest_chooses_no_file_but_those_of_its_own_experiment(tmp_path):
    """A results folder comes from outside: what a manifest names is read only if it is its own."""
    secret = tmp_path / "secret.md"
    secret.write_text("do not read this")
    folder = tmp_path / "results" / "mine"
    folder.mkdir(parents=True)
    named = {"twin": None, "drawn": False, "sections": []}
    about = {"title": "t", "source": "s", "command": "c", "figures": [{"name": "../../secret", **named}, "tiny", {}]}
    Manifest(folder / "tiny.json").keep({"experiment": "mine/tiny", **about})
    Manifest(folder / "other.json").keep({"experiment": "../../secret", **about})
    (paper,) = outputs.read(tmp_path / "results")
    assert [experiment.name for experiment in paper.experiments] == ["mine/tiny"]
    assert paper.experiments[0].figures == []
