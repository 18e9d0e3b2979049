"""Serve the built book on this machine: python tools/serve.py PORT"""

import errno
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGES = Path(__file__).resolve().parents[1] / "_build" / "html"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def main(port: str) -> None:
    if not port.isdigit() or not 0 < int(port) < 65536:
        sys.exit(f"PORT: expected a number from 1 to 65535, got {port!r}")
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(port)), partial(Quiet, directory=PAGES))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sys.exit(f"Port {port} is taken. Try another: make serve PORT={int(port) + 1}")
        sys.exit(f"Port {port} cannot be used: {error.strerror}. Try: make serve PORT=8001")
    print(f"The book is at http://localhost:{port} (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("\nBye.")


main(*sys.argv[1:2] or ["8000"])
