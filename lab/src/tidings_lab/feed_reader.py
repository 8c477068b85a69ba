"""Read the feed of a subscription from a running service at a constant rate."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable

_TIMEOUT_S = 30.0


class FeedReader(threading.Thread):
    """Every `interval_s` seconds, reads the feed with this secret; `base_url` returns None until the service runs."""

    def __init__(self, base_url: Callable[[], str | None], secret: str, interval_s: float = 1.0) -> None:
        super().__init__(name="feed-reader", daemon=True)
        self._base_url, self._path, self._every_s = base_url, f"/read/{secret}/atom", interval_s
        self._halt = threading.Event()
        self.responses = self.failures = 0
        self.failure: Exception | None = None  # the last one

    def run(self) -> None:
        while not self._halt.wait(self._every_s):
            if (url := self._base_url()) is not None:
                self._read(url + self._path)

    def _read(self, url: str) -> None:
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
                response.read()
            self.responses += 1
        except (urllib.error.URLError, OSError) as error:
            self.failures += 1
            self.failure = error

    def stop(self) -> None:
        self._halt.set()
        self.join()
