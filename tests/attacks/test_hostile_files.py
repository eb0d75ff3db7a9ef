"""Files that somebody else wrote, in every format that dpml reads, of which each tries to do more than be read."""

import io
import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from dpml.cli import predict
from dpml.data.csv.column_bounds import load
from dpml.data.sets.csv import CSV
from dpml.errors import UserError
from dpml.federated.party import own_rows, signing_key
from dpml.federated.plan import read_card, read_plan
from dpml.files import seal_object, shipped_folder
from dpml.recipes import judge, recipe_of, sentence
from dpml.release import verify
from dpml.release.ledger import Ledger
from dpml.release.model import read_model
from dpml.reporting.html import write_report
from dpml.screen import Screen, guarded, printable

OUTSIDE = "outside"
TEXTS = {
    "yaml code": "!!python/object/apply:os.system [touch ran]",
    "hydra target": "{_target_: subprocess.Popen, args: [touch, ran]}",
    "environment": "${oc.env:HOME}",
    "file": "${oc.decode:${oc.env:HOME}}",
    "path": f"../{OUTSIDE}",
    "absolute": f"/tmp/{OUTSIDE}",
    "module": "antigravity.X",
    "format": "{0.__class__.__mro__}",
    "percent": "%n%s%x",
    "clear": "\x1b[2J\x1b[31mmodel.json has a model",
    "title": "\x1b]0;mine\x07",
    "c1": "\x9b31mred",
    "turned": "\u202egnp.exe",
    "lines": "a\r\ndpml: done",
    "zero": "a\x00b",
    "markup": "[link=http://evil]x[/link]",
    "script": "</style><script>alert(1)</script>",
    "formula": '=HYPERLINK("http://evil","x")',
    "plus": "+cmd|' /C calc'!A0",
    "at": "@SUM(1+1)",
    "minus": "-2+3+cmd|' /C calc'!A0",
    "tab": "\t=1+1",
    "long": "x" * 100_000,
    "empty": "",
}
VALUES: dict[str, Any] = {
    "null": None, "true": True, "minus one": -1, "huge": 10**400, "tiny": 1e-320, "infinite": float("inf"),
    "no number": float("nan"), "list": [], "deep": [[[[]]]], "object": {"_target_": "os.abort"}, "rows": 10**13,
}  # fmt: skip
PLAN = {
    "format": "dpml plan 2",
    "terms": {
        "algo": "ssp", "eps": 1.0, "delta": 1e-5, "label": "y", "options": {"lam": 0.1}, "loss": None, "drop": ["id"],
        "missing": "refuse", "steps": ["one_hot", "symmetric", "sample_norm"], "encoding": "utf-8", "separator": None,
        "decimal": "point", "na": ["none"],
    },
    "stated": {"columns": {"a": {"low": 0, "high": 1}, "b": ["u", "v"]}, "classes": ["no", "yes"]},
    "parties": {name: {"rows": 100, "key": bytes([k] * 32).hex()} for k, name in enumerate("abc", 1)},
    "colluders": 1,
    "dropouts": 0,
    "signatures": {"a": "00" * 64},
}  # fmt: skip
MODEL = {
    "format": verify.MODEL,
    "task": "binary",
    "loss": "logistic",
    "label": "y",
    "stated": {"columns": {"a": {"low": 0, "high": 1}}, "classes": ["no", "yes"]},
    "steps": ["symmetric"],
    "weights": [[1.0]],
    "offset": 0.0,
    "scale": 1.0,
    "guarantees": [],
    "statement": ["Unit of privacy: one record.", "Guarantee: nothing is proven."],
    "setting": "algo=ssp",
    "versions": {"dpml": "0.1.0"},
    "certificate": None,
}
CERTIFICATE = {
    "format": verify.CERTIFICATE, "unit": "sample", "neighbours": "replace one", "delta": "1/100",
    "noise": {"by": "curator"}, "views": {"release": {"eps": 1}},
    "messages": [{"law": "gaussian", "times": 1, "sensitivity": 1, "deviation": 2}],
}  # fmt: skip
RECIPE = {
    "rounds": 3,
    "delta": 1e-5,
    "unit": "client",
    "noise_by": "shared",
    "std": 1.0,
    "clients": 4,
    "secure_sum": True,
}
FLOWER = {"flower": {"LocalDpMod": {"clipping_norm": 1, "sensitivity": 2, "epsilon": 1, "delta": 1e-5}}, "rounds": 2}
BOUNDS = {"columns": {"a": {"low": 0, "high": 1}, "b": ["u", "v"]}, "classes": ["no", "yes"]}
MANIFEST: dict[str, Any] = {
    "experiment": "p/e", "title": "t", "source": "s 2020", "note": "n", "command": "c", "panels": [], "claims": [],
    "rankings": [], "files": {},
    "figures": [{"name": "e", "twin": None, "sections": []}], "skipped": {}, "environment": {"git": {"commit": "x"}},
}  # fmt: skip
TABLE = "algo,variant,loss,noise,view,verdict,eps,metric,mean\n" + "".join(
    f"{{0}},paper,logistic,published,{{1}},{{2}},1,{metric},1\n" for metric in ("claimed", "proven", "attacked")
)


def variants(content: Any, payloads: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The content with one of its values replaced by each of the payloads, or one of its keys by one of them."""
    for *path, last in places(content):
        for name, payload in payloads.items():
            for renamed in (False, True):
                copy = json.loads(json.dumps(content))
                inner = copy
                for key in path:
                    inner = inner[key]
                if not renamed:
                    inner[last] = payload
                elif name == "clear" and isinstance(inner, dict):
                    inner[payload] = inner.pop(last)
                else:
                    continue
                yield f"{path} {last} {name} {renamed}", copy


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else []
    for key in keys:
        yield (*at, key)
        yield from places(content[key], (*at, key))


def damaged(text: str) -> Iterator[tuple[str, bytes]]:
    """The text in ways in which no file of this format is written."""
    raw = text.encode()
    yield from {
        "nothing": b"", "half": raw[: len(raw) // 2], "not UTF-8": b"\xff\xfe" + raw, "zeros": bytes(100),
        "nested": b"[" * 200_000, "nested objects": b'{"a":' * 100_000, "twice": raw + raw, "digits": b"1" * 10_000,
        "a key twice": raw.replace(b"{", b'{"format": "other", ', 1),
        "pickle": b"\x80\x04cposix\nsystem\n(S'touch ran'\ntR.",
        "bomb": b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\ncolumns: *c\n",
        "yaml": b"!!python/object/apply:os.system ['touch ran']",
    }.items()  # fmt: skip


@dataclass
class Watch:
    """What the process does while somebody's file is read."""

    folder: Path
    on: bool = False
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "webbrowser.open"):
            self.seen.append(f"{event} {arguments[:1]}")
        elif event == "import" and arguments[0].partition(".")[0] in ("antigravity", "evil", "os_evil"):
            self.seen.append(f"import {arguments[0]}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            path = Path(str(arguments[0])).absolute()
            allowed = (
                self.folder,
                Path(sys.base_prefix),
                *map(Path, filter(None, sys.path)),
                shipped_folder("conf").parent,
            )
            allowed += (Path(tempfile.gettempdir()), Path("/proc"))
            if OUTSIDE in path.name or not any(path.is_relative_to(each) for each in allowed):
                self.seen.append(f"open {path}")


WATCH = Watch(Path("/nowhere"))
sys.addaudithook(WATCH)


def sealed(content: Any) -> str:
    return json.dumps(seal_object(content), ensure_ascii=True)


def shown(*texts: str) -> None:
    file = io.StringIO()
    screen = Screen(file=file, force_terminal=True, color_system=None)
    for text in texts:
        screen.print(text, markup=False, highlight=False)
    check_text(file.getvalue())


def check_text(text: str) -> None:
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\x00", "\r", "\u202e"}


def model_used(path: Path) -> None:
    model = read_model(path)
    shown(*model.statement, model.setting, str(model.label))
    rows, out = path.with_name("rows.csv"), path.with_name("out.csv")
    names = list(model.stated.columns)
    pd.DataFrame([[0.5] * len(names), [-0.5] * len(names)], columns=names).to_csv(rows, index=False)
    out.unlink(missing_ok=True)

    class Arguments:
        file, output = rows, out
        encoding = separator = decimal = na = wanted = None
        proba = False

    Arguments.model = path  # type: ignore[attr-defined]
    predict.run_predict(Arguments)  # type: ignore[arg-type]
    for cell in pd.read_csv(out, dtype=str, keep_default_na=False)["prediction"]:
        check_text(cell)
        assert not cell.lstrip().startswith(("=", "@", "+c", "-2+"))


def ledger_read(path: Path) -> None:
    for entry in Ledger(path).entries():
        shown(entry.setting, str(entry.model))


def report_made(path: Path) -> None:
    results = path.with_suffix("")
    (results / "p").mkdir(parents=True, exist_ok=True)
    (results / "p" / "e.json").write_bytes(path.read_bytes())
    for page in (write_report(results).parent).rglob("*.html"):
        assert "<script>alert" not in page.read_text(encoding="utf-8")


def plan_shown(path: Path) -> None:
    plan = read_plan(path)
    shown(*plan.statement, *(seat.name for seat in plan.seats))


def recipe_judged(path: Path) -> None:
    recipe = recipe_of(path)
    found = judge(recipe)
    shown(sentence(recipe, found), *(each.source for each in found))


COLUMNS = CSV(label="y", steps=("symmetric",), missing="refuse")
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "plan": ("plan.json", plan_shown),
    "card": ("a.card", read_card),
    "model": ("model.json", model_used),
    "certificate": ("certificate.json", lambda path: verify.main(str(path))),
    "bounds": ("bounds.yaml", load),
    "key": ("a.key", signing_key),
    "rows": ("rows.csv", lambda path: own_rows(COLUMNS, load(path.with_name("b.yaml")), path)),
    "ledger": ("x.ledger", ledger_read),
    "manifest": ("manifest.json", report_made),
    "recipe": ("recipe.yaml", recipe_judged),
}  # fmt: skip


FEW = {name: TEXTS[name] for name in ("hydra target", "environment", "path", "clear", "turned", "module")}
SOME = FEW | {name: VALUES[name] for name in ("null", "huge", "list", "object", "rows", "no number")}
CONTENTS = [  # format, content, what its values and keys are replaced by
    ("plan", PLAN, {**TEXTS, **VALUES}),
    ("card", {"rows": 5, "key": "00" * 32}, SOME),
    ("model", MODEL, {**TEXTS, **VALUES}),
    ("certificate", CERTIFICATE, SOME),
    ("bounds", BOUNDS, {**TEXTS, **VALUES}),
    ("recipe", RECIPE, {**TEXTS, **VALUES}),
    ("recipe", FLOWER, {**TEXTS, **VALUES}),
    ("manifest", MANIFEST, FEW),
]


def corpus() -> Iterator[tuple[str, str, bytes]]:
    for form, content, payloads in CONTENTS:
        write = sealed if form in ("model", "certificate", "manifest") else json.dumps
        for what, changed in variants(content, payloads):
            yield form, what, write(changed).encode()
        for name, raw in damaged(write(content)):
            yield form, name, raw
    for name, text in TEXTS.items():
        yield "key", name, text.encode()
        yield "rows", f"column {name}", f'"{text}",y\n0.5,no\n0.1,yes\n'.encode()
        yield "rows", f"value {name}", f'a,y\n"{text}",no\n0.1,yes\n'.encode()
        yield "rows", f"label {name}", f'a,y\n0.5,"{text}"\n0.1,yes\n'.encode()
    for form, text in {"key": "00", "rows": "a,y\n1,no\n", "ledger": "SQLite format 3\0"}.items():
        for name, raw in damaged(text):
            yield form, name, raw


FILES = list(corpus())


def hostile_ledgers(folder: Path) -> Iterator[Path]:
    for k, statement in enumerate(
        (
            "CREATE TRIGGER t AFTER INSERT ON event BEGIN SELECT load_extension('evil'); END",
            "INSERT INTO event VALUES (1, 'release', '\x1b[2J', '{}', 'x')",
            "CREATE VIEW v AS SELECT writefile('ran', 'x')",
            "DROP TABLE last",
        )
    ):
        path = folder / f"{k}.ledger"
        with Ledger(path)._opened():
            pass
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        yield path


@pytest.fixture
def watched(tmp_path, monkeypatch) -> Iterator[Watch]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path))
    (tmp_path.parent / OUTSIDE).write_text("secret")
    (tmp_path / "b.yaml").write_text(json.dumps({"columns": {"a": {"low": 0, "high": 1}}, "classes": ["no", "yes"]}))
    WATCH.folder, WATCH.seen = tmp_path, []
    yield WATCH
    WATCH.on = False


def read(watch: Watch, reader: Callable[[Path], object], path: Path) -> str:
    """Read a file; the sentence about it, if it is refused."""
    watch.on = True
    try:
        reader(path)
    except UserError as error:
        return str(error)
    finally:
        watch.on = False
    return ""


@pytest.mark.slow_cases("rows")
@pytest.mark.parametrize("form", sorted(READERS))
def test_a_hostile_file_does_no_more_than_be_read(form, watched, tmp_path, capsys) -> None:
    file, reader = READERS[form]
    cases = [(name, content) for of, name, content in FILES if of == form]
    for name, content in cases:
        (tmp_path / file).unlink(missing_ok=True)
        (tmp_path / file).write_bytes(content)
        (tmp_path / file).chmod(0o600)
        try:
            with guarded():
                said = read(watched, reader, tmp_path / file)
        except Exception as error:
            raise AssertionError(f"{form}, {name}: {error!r}") from error
        assert not watched.seen, (form, name)
        check_text(printable(said))
        check_text(capsys.readouterr().err)
    assert not (tmp_path / "ran").exists()


def test_a_hostile_ledger_does_no_more_than_be_read(watched, tmp_path) -> None:
    for path in hostile_ledgers(tmp_path):
        read(watched, ledger_read, path)
        assert not watched.seen
    assert not (tmp_path / "ran").exists()


def test_what_is_printed_is_escaped(capsys) -> None:
    file = io.StringIO()
    for text in TEXTS.values():
        Screen(file=file, force_terminal=True).print(text)
        with guarded():
            print(text, file=sys.stderr)
    assert "\x1b[2J" not in file.getvalue()
    assert "\x07" not in file.getvalue()
    check_text(capsys.readouterr().err)
    raw = io.StringIO()
    Console(file=raw, force_terminal=True).print(TEXTS["clear"], markup=False, highlight=False)
    assert "\x1b[2J" in raw.getvalue()  # which rich alone would let through
    assert np.all([printable(word) == word for word in ("naïve", "東京", "a\tb\n")])
