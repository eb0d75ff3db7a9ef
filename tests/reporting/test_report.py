"""The pages of results: what is on them, and what is done with results that are missing, damaged or hostile."""

import re
from html import unescape
from pathlib import Path

import pytest

from dpml.errors import UserError
from dpml.reporting.html import framed, write_report
from dpml.reporting.manifest import Manifest, checksums, manifests
from dpml.reporting.pages import figure_page, overviews

RESULTS = Path(__file__).parents[2] / "results"


def claim(name, decision, **more):
    return {"id": name, "text": f"What {name} says.", "criterion": "c", "decision": decision} | more


def manifest(results, name, **about):
    path = results / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    Manifest(path).keep({"experiment": name, "title": "T", "source": "S", "note": "", "command": "C"} | about)


def check_links(folder):
    """Every address leads to a page, a place on it, or a file beside the report; nothing is asked of any host."""
    pages = {path.resolve(): path.read_text("utf-8") for path in folder.rglob("*.html")}
    places = {path: re.findall(r'\sid="([^"]*)"', text) for path, text in pages.items()}
    for path, text in pages.items():
        assert len(places[path]) == len(set(places[path])), path
        for address in map(unescape, re.findall(r'\s(?:src|href)="([^"]*)"', text)):
            target, _, place = address.partition("#")
            found = (path.parent / target).resolve() if target else path
            assert found.is_file(), (path, address)
            assert not place or place in places[found], (path, address)
    return pages


def test_every_page_of_the_results_is_made_from_the_manifests():
    known = manifests(RESULTS)
    figures = [(about, figure) for about in known for figure in about["figures"]]
    assert len(figures) > 50
    for about, figure in figures:
        path = RESULTS / about["experiment"].rpartition("/")[0] / f"{figure['name']}.md"
        assert figure_page(about, figure) == path.read_text("utf-8"), path
    for name, page in overviews(known).items():
        assert page == (RESULTS / name).read_text("utf-8"), name


@pytest.mark.slow
def test_the_report_of_all_results_and_of_a_run_has_no_broken_link(tmp_path):
    for folder in RESULTS.iterdir():
        if any(folder.glob("*.json")):
            (tmp_path / folder.name).symlink_to(folder)
    table = tmp_path / "sweeps" / "table.md"
    table.parent.mkdir()
    table.write_text("| ε | accuracy |\n| --- | --- |\n| 1 | 0.5 |\n")
    Manifest(table.with_name("manifest.json")).keep({"command": "dpml-run -m eps=1"}, [table])
    start = write_report(tmp_path)
    assert len(check_links(start.parent)) > 60
    page = (start.parent / "sweeps" / "table.html").read_text("utf-8")
    assert "<td>0.5</td>" in page
    assert "dpml-run -m eps=1" in page
    assert not re.search(r"@import|fetch\(|XMLHttpRequest", start.with_name("report.js").read_text())


def test_a_damaged_figure_is_not_shown(tmp_path, capsys):
    for name in ("fig1", "fig2"):
        page = tmp_path / "smith2030" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# {name}\n", "utf-8")
        files = checksums([page]) | ({"fig1.csv": "0"} if name == "fig1" else {})
        manifest(tmp_path, f"smith2030/{name}", files=files)
    (tmp_path / "smith2030" / "cut.json").write_text('{"exp', encoding="utf-8")
    start = write_report(tmp_path)
    assert [path.name for path in (start.parent / "smith2030").iterdir()] == ["fig2.html"]
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_manifest_chooses_no_file_but_those_of_its_own_experiment(tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    files = {name: checksums([secret])["secret.md"] for name in ("secret.md", "../../secret.md", "tiny.md")}
    manifest(tmp_path / "results", "mine/tiny", files=files)
    Manifest(tmp_path / "results" / "mine" / "other.json").keep({"experiment": "../../secret", "files": files})
    folder = write_report(tmp_path / "results").parent
    assert not any("secret" in path.name or ">secret<" in path.read_text() for path in folder.rglob("*.html"))


@pytest.mark.parametrize("place", ["report", "report/smith2030"])
def test_a_link_in_place_of_a_folder_of_the_report_is_not_followed(tmp_path, place):
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    manifest(results, "smith2030/fig1", claims=[claim("A1", "reproduced")])
    elsewhere.mkdir()
    (results / place).parent.mkdir(exist_ok=True)
    (results / place).symlink_to(elsewhere)
    with pytest.raises(UserError, match="is a link to another folder: remove it"):
        write_report(results)
    assert not list(elsewhere.iterdir())


def test_no_results_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="no results"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_page_runs_no_html_of_others():
    hostile = "# T\n\n<script>alert(1)</script> <img src=x onerror=alert(1)> ![x](http://host/x.png) [y](javascript:z)"
    text = framed(f"{hostile}\n\n<details onclick=z>\n\n<details>", lambda address: None, pages=[], here="", root="")
    body = text.split("<main>")[1].split("</main>")[0]
    assert re.findall(r"<(\w+)[^>]*(?:src|href|on\w+)=", body) == []
    assert body.count("<details>") == 1
    assert "<script" not in body
