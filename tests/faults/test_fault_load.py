"""The load of a fault test continues when a request fails."""

from __future__ import annotations

import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tidings.testing.fault_load import FeedAdder, Publisher, SubscriptionChurn, draw_pool
from tidings.testing.service import ServiceProcess


class TruncatingHandler(BaseHTTPRequestHandler):
    """Ends in the middle of every response, like a server that is killed."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b'{"accepted":')

    def log_message(self, *_):
        """Do not log."""


@pytest.fixture
def service(tmp_path):
    """Return a service that is killed during every response."""
    with ThreadingHTTPServer(("127.0.0.1", 0), TruncatingHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        service = ServiceProcess(tmp_path)
        service.address = f"http://127.0.0.1:{server.server_port}"
        yield service
        server.shutdown()


def test_truncated_response_is_a_failed_request(service):
    publisher = Publisher(service, draw_pool(1, 20), random.Random(1))
    churn, feeds = SubscriptionChurn(service, publisher.pool, random.Random(1)), FeedAdder(service, "http://127.0.0.1")
    while not publisher.failed_requests:  # some groups are written as files
        publisher.publish()
    churn.change()
    feeds.add()
    assert (churn.changes, feeds.tried, feeds.acknowledged) == (0, 1, [])
