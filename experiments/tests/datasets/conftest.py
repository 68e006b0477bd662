import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from standins import Server, lines

from actgp_experiments.datasets.fingerprint import digest
from actgp_experiments.datasets.sources import SOURCES, Source


@pytest.fixture
def server() -> Iterator[Server]:
    answer = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer.requests += 1
            body = answer.files.get(self.path[1:], b"") if answer.files else answer.body
            self.send_response(answer.status if body or not answer.files else 404)
            self.send_header("Content-Length", str(len(body) + answer.missing))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answer.address = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield answer
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no other folder of data."""
    monkeypatch.delenv("ACTGP_DATA", raising=False)
    monkeypatch.setenv("ACTGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def yacht(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A small table in yacht's place, which the server has."""
    table = np.random.default_rng(0).normal(size=(40, 7)).round(4)
    server.body = lines(table)
    source = replace(SOURCES["yacht"], base=server.address, num_rows=40, digest=digest(table))
    monkeypatch.setitem(SOURCES, "yacht", source)
    return source
