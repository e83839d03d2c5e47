"""A file server on this machine that can break off, send rubbish, and resume, as real ones do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class FileServer:
    """Files by path, and how to misbehave: `cut` breaks off after so many bytes, once; `ranges` is whether it can resume."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: dict[str, int] = {}
        self.busy: dict[str, int] = {}
        self.ranges = True
        self.requests: list[tuple[str, str | None]] = []
        self.address = ""

    @contextmanager
    def running(self) -> Iterator[FileServer]:
        """Serve on a free port until the end of the block."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                path, wanted = unquote(self.path).lstrip("/"), self.headers.get("Range")
                owner.requests.append((path, wanted))
                content = owner.files.get(path)
                if content is None:
                    self.send_error(404)
                    return
                if owner.busy.get(path, 0):
                    owner.busy[path] -= 1
                    self.send_error(503)
                    return
                start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted and owner.ranges else 0
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                stop = owner.cut.pop(path, len(content))
                self.wfile.write(content[start:stop])

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{http.server_address[1]}"
        try:
            yield self
        finally:
            http.shutdown()
            http.server_close()
