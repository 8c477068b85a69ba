"""Generate realistic posts, reproducible by their seed.

Parts of sentences are drawn for a whole chunk of posts and joined by Arrow: a million posts take seconds.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidings.demo.queries import DEMO_QUERIES, generate_queries
from tidings.demo.topics import CITIES, FOREIGN, OPENERS, SMALL_TALK, TOPICS

__all__ = ["CHUNK_POSTS", "DEMO_QUERIES", "POST_SCHEMA", "generate_posts", "generate_queries"]

Rows = npt.NDArray[np.int64]

POST_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("author", pa.string()),
        ("text", pa.string()),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("lang", pa.string()),
    ]
)
CHUNK_POSTS = 100_000  # a chunk depends only on the seed and its number
_START_US = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC
_GAP_US = 10_000  # 100 posts per second
_LOCATED = 0.2
_FOREIGN = 0.08
# The orders in which the parts of a post may come, the usual first; each with a chance to be left out.
_LAYOUTS = (
    "opener subject event place detail talk tag emoji link",
    "subject event place talk tag tag2 link",
    "name subject event detail emoji",
    "tag opener event subject place talk name link",
    "talk opener subject event detail tag",
)
_CHANCES = {"opener": 0.4, "place": 0.7, "detail": 0.6, "talk": 0.7, "tag": 0.6, "tag2": 0.3, "link": 0.4, "emoji": 0.4}


def generate_posts(count: int, seed: int) -> pa.Table:
    """Generate `count` posts about the topics of ``demo.topics``, in order of time, reproducible by the seed."""
    starts = range(0, count, CHUNK_POSTS)
    chunks = [_chunk(min(CHUNK_POSTS, count - start), start, seed) for start in starts]
    return pa.Table.from_batches(chunks, POST_SCHEMA)


def _chunk(count: int, start: int, seed: int) -> pa.RecordBatch:
    rng = np.random.default_rng([seed, start])
    ids = np.arange(start + 1, start + count + 1, dtype=np.int64)
    times = pa.array(_START_US + ids * _GAP_US, POST_SCHEMA.field("time").type)
    city = draw_zipf(rng, len(CITIES), count)
    texts, langs = _with_foreign(rng, _english(rng, city), city)
    lat, lon = _positions(rng, city)
    authors = _words(_rare_names(), draw_zipf(rng, len(_rare_names()), count))
    columns = [ids, times, authors, texts, lat, lon, langs]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=POST_SCHEMA)


def _english(rng: np.random.Generator, city: Rows) -> pa.Array:
    """Return one text per post, in one of the layouts."""
    topic = draw_zipf(rng, len(TOPICS), len(city))
    layout = draw_zipf(rng, len(_LAYOUTS), len(city))
    parts = _parts(rng, topic, city)
    texts, places = [], []
    for number, names in enumerate(_LAYOUTS):
        rows = np.flatnonzero(layout == number)
        chosen = [parts[name].take(pa.array(rows)) for name in names.split()]
        texts.append(pc.binary_join_element_wise(*chosen, " ", null_handling="skip"))
        places.append(rows)
    return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(places))))


def _parts(rng: np.random.Generator, topic: Rows, city: Rows) -> dict[str, pa.Array]:
    """Return all parts of the layouts, one value per post, null where a part is left out at random."""
    count = len(topic)
    parts = {
        "opener": _words(OPENERS, rng.integers(0, len(OPENERS), count)),
        "subject": _of_topic(rng, "subjects", topic),
        "event": _of_topic(rng, "events", topic),
        "detail": _of_topic(rng, "details", topic),
        "tag": _of_topic(rng, "tags", topic),
        "tag2": _words([f"#{_tag_of(place.name)}" for place in CITIES], city),
        "place": _words([f"in {place.name}" for place in CITIES], city),
        "emoji": _words([subject.emoji for subject in TOPICS], topic),
        "name": _words([f"@{name}" for name in _rare_names()], draw_zipf(rng, len(_rare_names()), count)),
        "link": _words(_links(), rng.integers(0, len(_links()), count)),
        "talk": _small_talk(rng, count),
    }
    for name, chance in _CHANCES.items():
        parts[name] = pc.if_else(pa.array(rng.random(count) < chance), parts[name], None)
    return parts


def _of_topic(rng: np.random.Generator, field: str, topic: Rows) -> pa.Array:
    """Draw a subject, event, detail or tag of the topic of each post."""
    choices = [[f"#{part}" if field == "tags" else part for part in getattr(subject, field)] for subject in TOPICS]
    sizes = np.array([len(parts) for parts in choices])
    firsts = np.cumsum(sizes) - sizes
    return _words(
        list(chain.from_iterable(choices)), firsts[topic] + (rng.random(len(topic)) * sizes[topic]).astype(np.int64)
    )


def _small_talk(rng: np.random.Generator, count: int) -> pa.Array:
    """Draw one to four common words per post, and sometimes a rare name."""
    common = [_words(SMALL_TALK, draw_zipf(rng, len(SMALL_TALK), count)) for _ in range(4)]
    lengths = rng.integers(1, 5, count)
    shown = [pc.if_else(pa.array(lengths > at), words, None) for at, words in enumerate(common)]
    rare = _words(_rare_names(), rng.integers(0, len(_rare_names()), count))
    shown.append(pc.if_else(pa.array(rng.random(count) < 0.3), rare, None))
    return pc.binary_join_element_wise(*shown, " ", null_handling="skip")


def _with_foreign(rng: np.random.Generator, english: pa.Array, city: Rows) -> tuple[pa.Array, pa.Array]:
    """Replace some texts by texts in other languages; return the texts and their languages."""
    sentence = rng.integers(0, len(FOREIGN), len(city))
    filled = [text.format(city=place.name) for _, text in FOREIGN for place in CITIES]
    is_foreign = pa.array(rng.random(len(city)) < _FOREIGN)
    texts = pc.if_else(is_foreign, _words(filled, sentence * len(CITIES) + city), english)
    return texts, pc.if_else(is_foreign, _words([lang for lang, _ in FOREIGN], sentence), "en")


def _positions(rng: np.random.Generator, city: Rows) -> tuple[pa.Array, pa.Array]:
    """Return latitudes and longitudes around the city, null for most posts."""
    missing = rng.random(len(city)) >= _LOCATED
    centres = np.array([(place.lat, place.lon) for place in CITIES])[city]
    spread = np.round(centres + rng.normal(0.0, 0.05, centres.shape), 5)
    return pa.array(spread[:, 0], mask=missing), pa.array(spread[:, 1], mask=missing)


@cache
def _rare_names() -> tuple[str, ...]:
    """Return about 10,000 invented names: the long tail of the vocabulary."""
    heads = (
        "ba bel bri cal cor da dor el fa fen gar hal jo kal kim lar lu ma mor na nel o pa per qui ra ros sa ta".split()
    )
    middles = "a be da le li mo na ne ri ro sa ti ve vi wo".split()
    tails = (
        "berg by dale den do field ford ham ine ka land ley lund man mark nen ner nova quist rov sen ski son".split()
    )
    names = [head + middle + tail for head in heads for middle in middles for tail in tails]
    order = np.random.default_rng(0).permutation(len(names))
    return tuple(names[at] for at in order)


@cache
def _links() -> tuple[str, ...]:
    return tuple(f"https://news.example/{name}/{at * 7919 % 99991}" for at, name in enumerate(_rare_names()[:5000]))


def _tag_of(name: str) -> str:
    return name.lower().replace(" ", "")


def _words(choices: tuple[str, ...] | list[str], rows: Rows) -> pa.Array:
    return pa.array(choices, pa.string()).take(pa.array(rows))


def draw_zipf(rng: np.random.Generator, size: int, count: int) -> Rows:
    """Draw numbers below `size` by Zipf's law: n with a probability proportional to 1/(n+1)."""
    edges = np.cumsum(1.0 / np.arange(1, size + 1))
    rows: Rows = np.searchsorted(edges, rng.random(count) * edges[-1]).astype(np.int64)
    return np.minimum(rows, size - 1)
