"""What an article, a subscription, a feed and a poll cost: measured on this code, kept as JSON with their origin.

`tidings provision --calibrate` measures them (`lab/costs.py`); a calibration ships with the package.
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
SHIPPED = "calibration.json"
_SHARES = ("crawl_ignoring_share", "match_share", "spread_exponent", "store_memory_share")


def _cost(about: str) -> Any:
    return field(metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Costs:
    """One number each; `about` in the metadata says of what. CPU is in seconds of one core, sizes are in bytes."""

    # a crawler
    crawl_request_bytes: float = _cost("a conditional request for a feed")
    crawl_unchanged_bytes: float = _cost("the answer 304 to it")
    crawl_document_bytes: float = _cost("a whole feed document, as it is sent")
    crawl_ignoring_share: float = _cost("share of feeds whose server sends the document even when it is unchanged")
    crawl_poll_cpu_s: float = _cost("asking for a feed and reading the answer")
    crawl_document_cpu_s: float = _cost("hashing and parsing a document, finding the new articles")
    crawl_feed_bytes: float = _cost("what is stored of a feed: validators, rhythm, hashes of articles")
    crawler_bytes: float = _cost("a crawler without feeds: JVM, Python, parser")
    # an article on its way
    article_bytes: float = _cost("an article: title, text, link, id")
    routed_bytes: float = _cost("the numbers of its words, as they are routed to one filter")
    hit_wire_bytes: float = _cost("telling that a subscription wants an article")
    # a filter
    receive_cpu_s: float = _cost("turning an article into the numbers of its words")
    match_cpu_s: float = _cost("matching an article, however few subscriptions there are")
    match_subscription_cpu_s: float = _cost("matching an article, for each subscription held")
    match_share: float = _cost("share of the subscriptions that want an article")
    spread_exponent: float = _cost("of n filters an article is routed to n to the power of this")
    index_subscription_bytes: float = _cost("a subscription in the index")
    filter_bytes: float = _cost("a filter without subscriptions: JVM, Python workers, dictionaries")
    # a reflector
    hit_cpu_s: float = _cost("putting an article into the hit queue of a subscription")
    hit_bytes: float = _cost("an entry of a hit queue")
    subscription_bytes: float = _cost("a subscription in the store")
    store_memory_share: float = _cost("share of what stores hold that must lie in memory; the rest is read from disk")
    answer_unchanged_bytes: float = _cost("the answer 304 to a reader")
    answer_unchanged_cpu_s: float = _cost("giving that answer")
    answer_bytes: float = _cost("a feed without its items, headers included")
    answer_item_bytes: float = _cost("an item of a feed, as it is sent")
    answer_cpu_s: float = _cost("making and sending a feed, without its items")
    answer_item_cpu_s: float = _cost("an item of it")
    reader_request_bytes: float = _cost("the request of a reader")
    reflector_bytes: float = _cost("a reflector without subscriptions")

    def changed(self, changes: Mapping[str, float]) -> Costs:
        """With some of them replaced; InputError for a name there is not or a value that is none."""
        for name, value in changes.items():
            if name not in NAMES:
                raise InputError(f"There is no cost called {name!r}; there are: {', '.join(NAMES)}.")
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
                raise InputError(f"The cost {name} must be a number that is not negative; {value!r} is none.")
        told = replace(self, **changes)
        for name in _SHARES:
            if getattr(told, name) > 1:
                raise InputError(f"{name} is a share between 0 and 1; {getattr(told, name):g} is none.")
        return told


Measured = Mapping[str, tuple[float, str]]  # by the cost's name: its value, and how it was found
ABOUT: Mapping[str, str] = {one.name: one.metadata["about"] for one in fields(Costs)}
NAMES = tuple(ABOUT)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Costs and where they are from: commit, versions, host, and how each was found."""

    costs: Costs
    origin: Mapping[str, Any]
    how: Mapping[str, str]  # by the cost's name; what is not measured begins with "assumed"

    @classmethod
    def of(cls, found: Measured, origin: Mapping[str, Any]) -> Calibration:
        """Every cost must have been found."""
        costs = Costs(**{name: float(found[name][0]) for name in NAMES})
        return cls(costs, origin, {name: found[name][1] for name in NAMES})

    def to_json(self) -> str:
        told = {"format": FORMAT, "format_version": FORMAT_VERSION, **self.origin}
        return json.dumps({**told, "costs": asdict(self.costs), "how": dict(self.how)}, indent=1) + "\n"


def load_calibration(path: Path | None = None) -> Calibration:
    """From a file, or the one that ships with the package."""
    name = SHIPPED if path is None else str(path)
    source = resources.files("tidings.provision") / SHIPPED if path is None else path
    try:
        body = json.loads(source.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{name}: it cannot be read ({error.strerror or error}).") from error
    except ValueError as error:
        raise InputError(f"{name}: this is no calibration; `tidings provision --calibrate` writes one.") from error
    return _calibration(body, name)


def _calibration(body: Any, name: str) -> Calibration:
    if not isinstance(body, dict) or body.get("format") != FORMAT or not isinstance(body.get("costs"), dict):
        raise InputError(f"{name}: this is no calibration; `tidings provision --calibrate` writes one.")
    if body.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{name}: it is of format version {body.get('format_version')}; make it anew by --calibrate.")
    if missing := [one for one in NAMES if one not in body["costs"]]:
        raise InputError(f"{name}: the cost {missing[0]} is missing; make it anew by `tidings provision --calibrate`.")
    costs = Costs(**dict.fromkeys(NAMES, 0.0)).changed(body["costs"])
    kept = {key: value for key, value in body.items() if key not in ("format", "format_version", "costs", "how")}
    return Calibration(costs, kept, body.get("how", {}))
