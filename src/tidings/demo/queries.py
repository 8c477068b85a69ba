"""Generate queries over the vocabulary of the generated posts, so that they match."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np

from tidings.demo.topics import CITIES, SMALL_TALK, TOPICS, Topic
from tidings.text.reference_analyzer import stop_words, word_term

# Queries of the live demo: one for each feature of the language.
DEMO_QUERIES: dict[str, str] = {
    "storm watch": "storm OR thunderstorm OR flood",
    "heavy rain": '"heavy rain"',
    "goals": "striker #football -penalty",
    "earthquakes": "earthquake (magnitude OR aftershock OR rescue)",
    "rates": '"central bank" rates',
    "commuters": "(trains OR tram OR motorway) delays",
    "London calling": "police within:-0.6,51.2,0.4,51.8",
    "near Amsterdam": "(fire OR smoke OR explosion) within:3,51,8,54",
    "moon landing": "rocket moon",
    "data leaks": "leaks NOT phone",
    "free coffee": "free coffee -scam",
    "elections": "#election (mayor OR candidate)",
    "good boys": '"lost dog" found',
}


def generate_queries(count: int, seed: int) -> list[str]:
    """Generate `count` realistic queries, mostly two or three words of one topic, reproducible by the seed."""
    rng = np.random.default_rng([seed, 1])
    weights = 1.0 / np.arange(1, len(TOPICS) + 1)
    topics = rng.choice(len(TOPICS), count, p=weights / weights.sum())
    shapes = rng.choice(len(_SHAPES), count, p=[chance for chance, _ in _SHAPES])
    draws = rng.random((count, 8))
    return [
        _SHAPES[shape][1](_Draw(TOPICS[topic], row))
        for topic, shape, row in zip(topics, shapes, draws.tolist(), strict=True)
    ]


class _Draw:
    """Picks words of one topic with numbers that were drawn before."""

    def __init__(self, topic: Topic, numbers: list[float]) -> None:
        self.topic = topic
        self.numbers = numbers

    def number(self, below: int) -> int:
        return int(self.numbers.pop() * below)

    def pick(self, choices: tuple[str, ...]) -> str:
        return choices[self.number(len(choices))]

    def words(self, count: int) -> list[str]:
        """Return words of the topic with different stems; the last may be a common word or a city."""
        kind = self.number(20)
        last = _CITY_WORDS if kind == 0 else _COMMON_WORDS if kind < 3 else _topic_words(self.topic)
        drawn = [self.pick(_topic_words(self.topic)) for _ in range(count - 1)] + [self.pick(last)]
        return list({_stem(word): word for word in drawn}.values())


def _words(draw: _Draw) -> str:
    length = (1, 2, 2, 2, 2, 3, 3, 3, 4, 4)[draw.number(10)]
    return " ".join(draw.words(length))


def _either(draw: _Draw) -> str:
    first, *others = draw.words(3)
    return f"{first} ({' OR '.join(others)})" if others else first


def _without(draw: _Draw) -> str:
    no = ("-", "NOT ")[draw.number(2)]
    first, *others = draw.words(2)
    return " ".join([first, *(no + word for word in others)])


def _phrase(draw: _Draw) -> str:
    return f'"{draw.pick(_phrases(draw.topic))}"'


def _tag(draw: _Draw) -> str:
    tag = f"#{draw.pick(draw.topic.tags)}"
    return " ".join([tag, *draw.words(1)]) if draw.number(2) else tag


def _near(draw: _Draw) -> str:
    city, half = CITIES[draw.number(len(CITIES))], 0.1 + draw.number(10) / 10
    west, south, east, north = (city.lon - half, city.lat - half, city.lon + half, city.lat + half)
    return f"{draw.words(1)[0]} within:{west:.2f},{south:.2f},{min(east, 180.0):.2f},{north:.2f}"


_SHAPES: tuple[tuple[float, Callable[[_Draw], str]], ...] = (
    (0.72, _words),
    (0.08, _either),
    (0.06, _without),
    (0.06, _phrase),
    (0.05, _tag),
    (0.03, _near),
)


@cache
def _stem(word: str) -> str:
    return word_term(word) or word


def _significant(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinct words of the texts that queries may use: letters only, no stop words."""
    words = (word for text in texts for word in re.findall(r"[^\W\d_]{3,}", re.sub(r"&#?\w+;", " ", text.lower())))
    return tuple(dict.fromkeys(word for word in words if word not in stop_words()))


@cache
def _topic_words(topic: Topic) -> tuple[str, ...]:
    return _significant((*topic.subjects, *topic.events, *topic.details))


@cache
def _phrases(topic: Topic) -> tuple[str, ...]:
    """Return phrases of posts with two or more words, at least one of them significant."""
    return tuple(text for text in (*topic.subjects, *topic.events) if " " in text and _significant((text,)))


_COMMON_WORDS = _significant(SMALL_TALK)
_CITY_WORDS = _significant(tuple(city.name for city in CITIES))
