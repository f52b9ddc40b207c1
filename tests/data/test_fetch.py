"""Downloads against a local server that cuts, alters, or answers with a web page."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pcer.data import fetch as fetch_module
from pcer.data import load
from pcer.data.fetch import DataFile, download, locate
from pcer.errors import FetchError, InputError

GOOD = bytes(range(256)) * 4000
PAGE = b"\n <!DOCTYPE html><html><body>Please log in.</body></html>"


class Handler(BaseHTTPRequestHandler):
    """Answers by the name that is asked for."""

    def do_GET(self):  # noqa: D102
        kind = self.path.strip("/")
        if kind == "gone":
            self.send_error(404)
            return
        body = {"page": PAGE, "altered": GOOD[:-1] + b"!"}.get(kind, GOOD)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if kind == "cut" else body)

    def log_message(self, *arguments):  # noqa: D102
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def wanted(server, kind, **changes):
    digest = hashlib.sha256(GOOD).hexdigest()
    return DataFile(**{"name": "some.bin", "url": f"{server}/{kind}", "sha256": digest, **changes})


def test_a_good_download_is_cached_whole(server, tmp_path, capsys):
    path = download(wanted(server, "good"), cache=tmp_path / "new")
    assert path.read_bytes() == GOOD
    assert [entry.name for entry in path.parent.iterdir()] == ["some.bin"]
    assert locate(wanted(server, "good"), cache=path.parent) == path
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "some.bin" in shown.err


@pytest.mark.parametrize(
    ("kind", "reason", "more"),
    [
        ("cut", "the download broke off", {}),
        ("altered", "it is altered", {}),
        ("page", "the server answered with a web page", {}),
        ("gone", "the download broke off", {}),
        ("cut", "the download broke off", {"sha256": None}),
        ("page", "the server answered with a web page", {"sha256": None}),
    ],
)
def test_a_bad_download_leaves_nothing_and_says_what_to_do(server, tmp_path, kind, reason, more):
    with pytest.raises(FetchError) as caught:
        download(wanted(server, kind, **more), cache=tmp_path, show_progress=False)
    assert list(tmp_path.iterdir()) == []
    sentence = str(caught.value)
    assert reason in sentence
    assert "some.bin" in sentence
    assert f"{server}/{kind}" in sentence
    assert "PCER_DATA" in sentence


def test_a_download_of_another_shape_is_refused(server, tmp_path):
    def check(path: Path) -> None:
        raise InputError(f"{path.name} has another shape")

    file = wanted(server, "altered", sha256=None, check=check)
    with pytest.raises(FetchError, match="not what the publisher described") as caught:
        download(file, cache=tmp_path, show_progress=False)
    assert "another shape" in str(caught.value.__cause__)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_keeps_the_file_that_was_there(server, tmp_path):
    (tmp_path / "some.bin").write_bytes(GOOD)
    with pytest.raises(FetchError):
        download(wanted(server, "cut"), cache=tmp_path, show_progress=False)
    assert (tmp_path / "some.bin").read_bytes() == GOOD


def test_a_server_that_is_away_is_named(tmp_path):
    file = DataFile(name="some.bin", url="http://127.0.0.1:9/some.bin")
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:9"):
        download(file, cache=tmp_path, show_progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_address_is_asked_for_by_folder(tmp_path):
    with pytest.raises(FetchError, match="cannot be downloaded; name the folder"):
        download(DataFile(name="some.bin"), cache=tmp_path)


def test_a_copy_with_another_digest_is_refused(server, tmp_path, monkeypatch):
    (tmp_path / "some.bin").write_bytes(GOOD[:-1])
    monkeypatch.setenv("PCER_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"some\.bin is not the file that pcer knows"):
        locate(wanted(server, "good"), cache=tmp_path / "cache")


def test_nothing_is_downloaded_while_everything_is_at_hand(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a download was started")

    monkeypatch.setattr(fetch_module, "_transfer", refuse)
    assert load("compas").n_records == 6_172


def test_a_dataset_that_is_nowhere_is_fetched_from_its_publisher(server, tmp_path, monkeypatch):
    from pcer.data import benchmarks as room

    monkeypatch.delenv("PCER_DATA", raising=False)
    task = next(source for source in room.SOURCES if source.name == "acs")
    files = tuple(replace(file, url=f"{server}/page") for file in task.files)
    monkeypatch.setattr(room, "SOURCES", (replace(task, files=files),))
    with pytest.raises(FetchError, match=r"csv_pca\.zip could not be fetched.*a web page"):
        load("acs", cache=tmp_path, show_progress=False)
    assert list(tmp_path.iterdir()) == []
