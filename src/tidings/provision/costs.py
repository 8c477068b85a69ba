"""Costs of an article, a subscription, a feed and a poll, as JSON with their origin.

`tidings-lab calibrate` measures them; a calibration ships with the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from tidings.errors import InputError

FORMAT, FORMAT_VERSION = "tidings-costs", 1
DEFAULT_FILE = "calibration.json"
_SHARE_COSTS = ("crawl_ignoring_share", "match_share", "spread_exponent", "store_memory_share")


def _cost(about: str) -> Any:
    return field(metadata={"about": about})


@dataclass(frozen=True, slots=True)
class ServiceCosts:
    """Costs per operation: CPU in seconds of one core, sizes in bytes; the metadata `about` describes each."""

    # a crawler
    crawl_request_bytes: float = _cost("a conditional request for a feed")
    crawl_unchanged_bytes: float = _cost("the response 304 to it")
    crawl_document_bytes: float = _cost("a feed document, as sent")
    crawl_ignoring_share: float = _cost("share of feeds whose server sends the document although it is unchanged")
    crawl_poll_cpu_s: float = _cost("requesting a feed and reading the response")
    crawl_document_cpu_s: float = _cost("hashing and parsing a document, finding the new articles")
    crawl_feed_bytes: float = _cost("state of a feed in the store: validators, update history, hashes of articles")
    crawler_bytes: float = _cost("a crawler without feeds: JVM, Python, parser")
    # an article in transit
    article_bytes: float = _cost("an article: title, text, link, id")
    routed_bytes: float = _cost("term ids of an article, routed to one filter")
    hit_wire_bytes: float = _cost("reporting a match")
    # a filter
    receive_cpu_s: float = _cost("analyzing an article into term ids")
    match_cpu_s: float = _cost("matching an article, independent of the subscriptions")
    match_subscription_cpu_s: float = _cost("matching an article, per subscription held")
    match_share: float = _cost("share of the subscriptions that an article matches")
    spread_exponent: float = _cost("an article is routed to n ** this of n filters")
    index_subscription_bytes: float = _cost("a subscription in the index")
    filter_bytes: float = _cost("a filter without subscriptions: JVM, Python workers, dictionaries")
    # a reflector
    hit_cpu_s: float = _cost("adding an article to the queue of a subscription")
    hit_bytes: float = _cost("an entry of a queue")
    subscription_bytes: float = _cost("a subscription in the store")
    store_memory_share: float = _cost("share of the stored data that must be in memory")
    answer_unchanged_bytes: float = _cost("the response 304 to a reader")
    answer_unchanged_cpu_s: float = _cost("sending that response")
    answer_bytes: float = _cost("a feed without its items, headers included")
    answer_item_bytes: float = _cost("an item of a feed, as sent")
    answer_cpu_s: float = _cost("building and sending a feed, without its items")
    answer_item_cpu_s: float = _cost("building and sending an item")
    reader_request_bytes: float = _cost("the request of a reader")
    reflector_bytes: float = _cost("a reflector without subscriptions")

    def with_changes(self, changes: Mapping[str, float]) -> ServiceCosts:
        """Return the costs with some replaced. Raises InputError for unknown names and invalid values."""
        for name, value in changes.items():
            if name not in NAMES:
                raise InputError(f"{name}: no such cost. Choose one of: {', '.join(NAMES)}.")
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
                raise InputError(f"{name}: {value!r} is not valid. Costs are finite numbers of at least 0.")
        changed = replace(self, **changes)
        for name in _SHARE_COSTS:
            if getattr(changed, name) > 1:
                raise InputError(f"{name}: {getattr(changed, name):g} is not valid. It is a share between 0 and 1.")
        return changed


MeasuredCosts = Mapping[str, tuple[float, str]]  # by name: the value, and how it was measured
ABOUT: Mapping[str, str] = {cost.name: cost.metadata["about"] for cost in fields(ServiceCosts)}
NAMES = tuple(ABOUT)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Costs and their origin: commit, versions, host, and how each was measured."""

    costs: ServiceCosts
    origin: Mapping[str, Any]
    how: Mapping[str, str]  # by name; starts with "assumed" if not measured

    @classmethod
    def from_measurements(cls, measured: MeasuredCosts, origin: Mapping[str, Any]) -> Calibration:
        """Build a calibration from measurements of all costs."""
        costs = ServiceCosts(**{name: float(measured[name][0]) for name in NAMES})
        return cls(costs, origin, {name: measured[name][1] for name in NAMES})

    def to_json(self) -> str:
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, **self.origin}
        return json.dumps({**header, "costs": asdict(self.costs), "how": dict(self.how)}, indent=1) + "\n"


def load_calibration(path: Path | None = None) -> Calibration:
    """Load a file, or the calibration of the package. Raises InputError if it is not valid."""
    name = DEFAULT_FILE if path is None else str(path)
    source = resources.files("tidings.provision") / DEFAULT_FILE if path is None else path
    try:
        body = json.loads(source.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error}).") from error
    except ValueError as error:
        raise InputError(f"{name}: not a calibration. Create one with `tidings-lab calibrate`.") from error
    return _parse_calibration(body, name)


def _parse_calibration(body: Any, name: str) -> Calibration:
    if not isinstance(body, dict) or body.get("format") != FORMAT or not isinstance(body.get("costs"), dict):
        raise InputError(f"{name}: not a calibration. Create one with `tidings-lab calibrate`.")
    if body.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{name}: format version {body.get('format_version')} is not supported. Run `tidings-lab calibrate` again."
        )
    if missing := [cost for cost in NAMES if cost not in body["costs"]]:
        raise InputError(f"{name}: the cost {missing[0]} is missing. Run `tidings-lab calibrate` again.")
    costs = ServiceCosts(**dict.fromkeys(NAMES, 0.0)).with_changes(body["costs"])
    origin = {key: value for key, value in body.items() if key not in ("format", "format_version", "costs", "how")}
    return Calibration(costs, origin, body.get("how", {}))
