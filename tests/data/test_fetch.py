"""Downloads against a local server that cuts, alters, or answers with a web page."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pcer.data import acs, benchmarks, load
from pcer.data.benchmarks import download, locate
from pcer.data.bundled import COMPAS
from pcer.data.task import DataFile
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
    return DataFile(
        **{"name": "some.bin", "url": f"{server}/{kind}", "sha256": digest, **changes}
    )


def test_a_good_download_is_cached_whole(server, tmp_path, capsys):
    path = download(wanted(server, "good"), cache=tmp_path / "new")
    assert path.read_bytes() == GOOD
    assert [entry.name for entry in path.parent.iterdir()] == ["some.bin"]
    assert locate(wanted(server, "good"), cache=path.parent) == path
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "some.bin" in shown.err


def refuse(path: Path) -> None:
    raise InputError(f"{path.name} has another shape")


BROKE_OFF = "the download failed"
ANOTHER = "is not the one that its publisher describes"


@pytest.mark.parametrize(
    ("kind", "reason", "more"),
    [
        ("cut", BROKE_OFF, {}),
        ("cut", BROKE_OFF, {"sha256": None}),
        ("gone", BROKE_OFF, {}),
        ("away", BROKE_OFF, {"url": "http://127.0.0.1:9/away"}),
        ("altered", ANOTHER, {}),
        ("page", ANOTHER, {}),
        ("altered", ANOTHER, {"sha256": None, "check": refuse}),
    ],
)
def test_a_bad_download_changes_nothing_and_says_what_to_do(
    server, tmp_path, kind, reason, more
):
    file = wanted(server, kind, **more)
    for before in ([], ["some.bin"]):  # a file that was there stays
        with pytest.raises(FetchError, match=reason) as caught:
            download(file, cache=tmp_path, show_progress=False)
        assert [entry.name for entry in tmp_path.iterdir()] == before
        for word in ("some.bin", file.url, "PCER_DATA"):
            assert word in str(caught.value)
        (tmp_path / "some.bin").write_bytes(GOOD)
    assert (tmp_path / "some.bin").read_bytes() == GOOD
    if "check" in more:
        assert "another shape" in str(caught.value.__cause__)


def test_a_file_without_address_or_with_another_digest_is_asked_for(
    server, tmp_path, monkeypatch
):
    with pytest.raises(FetchError, match="cannot be downloaded; name the folder"):
        download(DataFile(name="some.bin"), cache=tmp_path)
    (tmp_path / "some.bin").write_bytes(GOOD[:-1])
    monkeypatch.setenv("PCER_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"some\.bin is not the file that pcer knows"):
        locate(wanted(server, "good"), cache=tmp_path / "cache")


def test_a_dataset_that_is_nowhere_is_fetched_from_its_publisher(
    server, tmp_path, monkeypatch
):
    monkeypatch.delenv("PCER_DATA", raising=False)
    files = tuple(replace(file, url=f"{server}/page") for file in acs.ACS_INCOME.files)
    monkeypatch.setattr(
        benchmarks, "SOURCES", (replace(acs.ACS_INCOME, files=files), COMPAS)
    )
    with pytest.raises(
        FetchError, match=rf"csv_pca\.zip could not be fetched.*{ANOTHER}"
    ):
        load("acs", cache=tmp_path, show_progress=False)
    assert list(tmp_path.iterdir()) == []
    assert (
        load("compas").n_records == 6_172
    )  # nothing is fetched while everything is at hand
