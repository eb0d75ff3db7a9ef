"""Every way a download can go wrong: one sentence for the user, nothing half-written."""

import bz2
import gzip
import hashlib
import io
import lzma
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dpml.config import catalogue
from dpml.data import Files, Info, Raw
from dpml.data.sources.files import read_content
from dpml.errors import UserError

CONTENT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def mini(*urls: str, sha256: tuple[str, ...] = (SHA256,), **known: object) -> Info:
    raw = Raw("squares.csv", urls, sha256, **known)  # type: ignore[arg-type]
    return Info("mini", "Mini", "binary", "none", "It is made here.", files=(raw,), folders=("other_name",))


@pytest.fixture
def info(server) -> Info:
    (server.folder / "squares.csv").write_bytes(CONTENT)
    return mini(f"{server.url}/squares.csv")


def left(root: Path) -> list[str]:
    """Every file under a folder, apart from the records of checksums and the locks."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    return sorted(path.relative_to(root).as_posix() for path in files if "checksums" not in path.parts)


def zipped(name: str, content: bytes) -> bytes:
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("__MACOSX/x/" + name, b"resource fork")
        file.writestr(name, content)
    return box.getvalue()


def tarred(*contents: tuple[str, bytes], mode: str = "w:gz") -> bytes:
    box = io.BytesIO()
    with tarfile.open(fileobj=box, mode=mode) as file:  # type: ignore[call-overload]
        for name, content in contents:
            item = tarfile.TarInfo(name)
            item.size = len(content)
            file.addfile(item, io.BytesIO(content))
    return box.getvalue()


@pytest.mark.parametrize(
    ("address", "served", "stored"),
    [
        ("squares.csv", CONTENT, "squares.csv"),
        ("squares.csv.gz", gzip.compress(CONTENT), "squares.csv.gz"),
        ("no_suffix", lzma.compress(CONTENT), "squares.csv.xz"),
        ("a.zip!squares.csv", zipped("folder/squares.csv", CONTENT), "squares.csv"),
        ("a.zip!squares.gz", zipped("squares.gz", gzip.compress(CONTENT)), "squares.csv.gz"),
        ("a.zip!b.zip!in/squares.csv", zipped("b.zip", zipped("in/squares.csv", CONTENT)), "squares.csv"),
        ("a.zip!b.tar.gz!in/squares.csv", zipped("b.tar.gz", tarred(("in/squares.csv", CONTENT))), "squares.csv"),
        ("b.tar.gz!in/squares.csv", tarred(("in/squares.csv", CONTENT)), "squares.csv"),
    ],
)
def test_fetches_plain_compressed_and_archived_files(server, tmp_path, address, served, stored):
    (server.folder / address.partition("!")[0]).write_bytes(served)
    path = Files().find(mini(f"{server.url}/{address}"), "squares.csv")
    assert path == tmp_path / "cache" / "mini" / stored
    assert read_content(path).sha256 == SHA256
    assert path.stat().st_mode & 0o777 == 0o644
    assert left(tmp_path / "cache") == [f"mini/{stored}"]


def test_an_archive_is_transferred_once_for_all_its_files(server):
    (server.folder / "b.tar.gz").write_bytes(tarred(*((f"in/{name}", CONTENT) for name in ("one", "two", "three"))))
    files = tuple(Raw(name, (f"{server.url}/b.tar.gz!in/{name}",), (SHA256,)) for name in ("one", "two", "three"))
    info = Info("mini", "Mini", "binary", "none", files=files)
    Files().find(info, "two")
    assert all(Files().local(info, raw.name) for raw in files)
    assert server.hits == ["/b.tar.gz"]


@pytest.mark.parametrize(
    ("sent", "told"), [("truncated", "127.0.0.1"), ("404", "404 Client Error"), ("500", "500 Server Error")]
)
def test_a_fault_gives_one_sentence_and_leaves_nothing(server, info, tmp_path, sent, told):
    server.faults["/squares.csv"] = sent
    with pytest.raises(UserError) as error:
        Files().find(info, "squares.csv")
    message = str(error.value)
    assert "cannot fetch squares.csv of dataset=mini" in message
    assert told in message
    assert "mirror=URL" in message
    assert "\n" not in message
    assert left(tmp_path / "cache") == []
    # the next address is tried
    server.faults["/squares.csv"] = sent
    (server.folder / "second.csv").write_bytes(CONTENT)
    path = Files().find(mini(f"{server.url}/squares.csv", f"{server.url}/second.csv"), "squares.csv")
    assert path.read_bytes() == CONTENT
    assert server.hits[-1] == "/second.csv"


def test_no_network(tmp_path):
    # port 9 of the loopback refuses connections, as an unplugged machine would
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9: no network connection\. Try again later, set mirror=URL"):
        Files().find(mini("http://127.0.0.1:9/squares.csv"), "squares.csv")
    assert left(tmp_path / "cache") == []


@pytest.mark.parametrize("word", ["0", "false", "No", ""])
def test_an_address_that_is_none(monkeypatch, word):
    monkeypatch.setenv("DPML_OFFLINE", word)
    with pytest.raises(UserError, match=r"dataset=mini: .*nowhere/squares\.csv"):
        Files(mirror="nowhere").find(mini(), "squares.csv")


def damaged(pack) -> bytes:
    content = bytearray(pack(tarred(("squares.csv", np.random.default_rng(0).bytes(200_000)), mode="w")))
    content[len(content) // 2 : len(content) // 2 + 4000] = bytes(4000)
    return bytes(content)


OF_TAR = r"archive cannot be read|its sha256 is"


@pytest.mark.parametrize(
    ("address", "served", "said"),
    [
        ("squares.csv", b"something else", "its sha256 is"),
        ("a.zip!squares.csv", zipped("squares.csv", CONTENT)[:2000], "archive"),
        ("a.zip!squares.csv", b"neither zip nor tar", "archive"),
        ("a.zip!squares.csv", zipped("circles.csv", CONTENT), r"archive does not contain squares\.csv"),
        *(("a.tar!squares.csv", damaged(pack), OF_TAR) for pack in (bz2.compress, lzma.compress, gzip.compress)),
        ("squares.csv.gz", gzip.compress(CONTENT)[:-2000], r"squares\.csv is damaged"),
    ],
    ids=["another content", "cut", "neither zip nor tar", "without the file", "bz2", "lzma", "gzip", "compressed file"],
)
def test_damaged_content(server, tmp_path, address, served, said):
    (server.folder / address.partition("!")[0]).write_bytes(served)
    with pytest.raises(UserError, match=said):
        Files().find(mini(f"{server.url}/{address}"), "squares.csv")
    assert left(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("folder", "saved", "content"),
    [
        ("mini", "archive (1).zip", zipped("inner.zip", zipped("Data Set/squares.csv", CONTENT))),
        ("other_name", "inner.zip", zipped("Data Set/squares.csv", CONTENT)),
        ("mini", "b.tgz", tarred(("Data Set/squares.csv", CONTENT))),
        ("mini", "Data Set/squares.csv", CONTENT),
        ("other_name", "official/Data Set/squares.csv", CONTENT),
    ],
)
def test_what_was_saved_by_hand_is_found_offline(tmp_path, folder, saved, content):
    """The publisher's archive as a browser saves it, in whole or in part, packed or unpacked; it stays where it is."""
    path = tmp_path / "cache" / folder / saved
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    info = mini("http://127.0.0.1:9/official.zip!inner.zip!Data Set/squares.csv")
    (known,) = Files(offline=True).verified(info).values()
    assert known[1] == SHA256
    assert path.read_bytes() == content


def test_an_archive_that_was_saved_damaged_is_named(tmp_path):
    (tmp_path / "cache" / "mini").mkdir(parents=True)
    (tmp_path / "cache" / "mini" / "my data.zip").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(UserError, match=r"cannot fetch squares\.csv of dataset=mini: my data\.zip"):
        Files(offline=True).find(mini("http://127.0.0.1:9/a.zip!squares.csv"), "squares.csv")


def test_a_file_without_a_published_checksum_is_compared_with_what_was_seen_first(server, info, tmp_path, capsys):
    with pytest.raises(UserError, match="it has 5,000 lines instead of 4,999"):
        Files().find(mini(f"{server.url}/squares.csv", sha256=(), lines=4999), "squares.csv")
    assert left(tmp_path / "cache") == []
    info = mini(f"{server.url}/squares.csv", sha256=(), lines=5000)
    path = Files().find(info, "squares.csv")
    assert f"its sha256 {SHA256} is recorded" in capsys.readouterr().err
    assert Files().verified(info) == {"squares.csv": (path, SHA256)}
    path.write_bytes(CONTENT.replace(b"4999,", b"4998,"))
    with pytest.raises(UserError, match=rf"it has changed since its sha256 {SHA256[:16]}\.\.\. was recorded in "):
        Files().verified(info)
    path.write_bytes(CONTENT)
    assert Files().verified(info)["squares.csv"][1] == SHA256


def test_what_is_not_pinned_is_never_fetched_in_the_clear():
    """Over http anybody on the way may change a file; then only its checksum tells."""
    files = [raw for source in catalogue.sources().values() for raw in source.info.files]
    assert not [raw.name for raw in files if not raw.sha256 and any(url.startswith("http:") for url in raw.urls)]


def test_a_cache_that_cannot_be_written(info, tmp_path, monkeypatch):
    # a file where a folder should be: no user, not even root, can write below it
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match=r"cannot write the files of dataset=mini .*: .*set DPML_CACHE"):
        Files().find(info, "squares.csv")


@pytest.mark.slow
def test_two_processes_fetch_a_file_once_and_parse_it_once(server, tmp_path):
    (server.folder / "squares.csv").write_bytes(CONTENT)
    server.delay = 0.5
    program = f"""
import time, numpy as np
from dpml.data import Files, Info, Raw
from dpml.data.sources import cache
raw = Raw("squares.csv", ("{server.url}/squares.csv",), ("{SHA256}",))
print(Files().find(Info("mini", "Mini", "binary", "none", files=(raw,)), "squares.csv"))
def build():
    print("built")
    time.sleep(0.5)
    return {{"X": np.ones(3)}}, {{}}
print(cache.load_or_build("mini", {{}}, build)[0]["X"].sum())
"""
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    path = tmp_path / "cache" / "mini" / "squares.csv"
    assert sorted(out for out, _ in told) == [f"{path}\n3.0\n", f"{path}\nbuilt\n3.0\n"]
    assert server.hits == ["/squares.csv"]
    assert [Path(name).name for name in left(tmp_path / "cache")] == ["squares.csv", "X.npy", "facts.json"]


@pytest.mark.parametrize("served", ["mini/squares.csv", "other_name/squares.csv.gz", "squares.csv.xz"])
def test_a_mirror_is_laid_out_as_a_data_folder(server, monkeypatch, served):
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(served).suffix, bytes)
    (server.folder / served).parent.mkdir(exist_ok=True)
    (server.folder / served).write_bytes(pack(CONTENT))
    path = Files(mirror=f"{server.url}/").find(mini("http://127.0.0.1:9/never-asked"), "squares.csv")
    assert read_content(path).sha256 == SHA256
    path.unlink()
    monkeypatch.setenv("DPML_MIRROR", server.url)
    assert Files().find(mini("http://127.0.0.1:9/never-asked"), "squares.csv") == path


def test_offline_fetches_nothing(server, info, monkeypatch):
    with pytest.raises(UserError, match=r"Offline mode forbids .*It is made here\. Put the file into a folder"):
        Files(offline=True).find(info, "squares.csv")
    monkeypatch.setenv("DPML_OFFLINE", "1")
    with pytest.raises(UserError, match="Offline mode forbids"):
        Files().find(info, "squares.csv")
    assert server.hits == []
