"""The token cache is stored next to the index: it saves time and does not change matches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.index.token_cache_file import TokenCacheFile
from tidings.text.analyzer import Analyzer
from tidings.text.vocabulary import LayeredVocabulary, Vocabulary

TEXTS = pa.array([f"word{n} running cats #tag{n % 7} don't café{n % 5} {'long' * 6}{n}" for n in range(20_000)])
OLD = LayeredVocabulary([Vocabulary.build([b"cat", b"word7"])])
NEW = LayeredVocabulary([Vocabulary.build([b"run", b"#tag3", b"word7", b"cafe1", b"word19999"])])


def terms(analyzer: Analyzer) -> list[list[int]]:
    batch = analyzer.analyze(TEXTS)
    return [batch.terms[a:b].tolist() for a, b in batch.bounds.tolist()]


@pytest.mark.parametrize("gaps", [False, True])
def test_analyzers_can_share_a_cache(gaps):
    cache = Analyzer(OLD).token_cache
    old, new = (Analyzer(dictionary, keep_gaps=gaps, token_cache=cache) for dictionary in (OLD, NEW))
    expected_old, expected_new = terms(Analyzer(OLD, keep_gaps=gaps)), terms(Analyzer(NEW, keep_gaps=gaps))
    assert expected_old != expected_new
    for _ in range(2):
        assert terms(old) == expected_old
        assert terms(new) == expected_new


def test_a_new_process_starts_with_the_stored_cache(tmp_path):
    first = TokenCacheFile(tmp_path)
    terms(Analyzer(OLD, token_cache=first.cache))
    tokens = len(first.cache)
    first.save()
    second = TokenCacheFile(tmp_path)
    assert len(second.cache) == tokens
    assert terms(Analyzer(NEW, token_cache=second.cache)) == terms(Analyzer(NEW))
    assert len(second.cache) == tokens, "no token was new"


def test_the_cache_is_written_again_only_after_growth(tmp_path):
    stored = TokenCacheFile(tmp_path)
    stored.save()
    assert not (tmp_path / "token-cache").exists()
    analyzer = Analyzer(OLD, token_cache=stored.cache)
    analyzer.analyze(TEXTS)
    stored.save()
    snapshots = list((tmp_path / "token-cache").iterdir())
    analyzer.analyze(pa.array(["somethingnew"]))
    stored.save()
    assert list((tmp_path / "token-cache").iterdir()) == snapshots
    analyzer.analyze(pa.array([f"other{n}" for n in range(40_000)]))
    stored.save()
    (only,) = (tmp_path / "token-cache").iterdir()
    assert only not in snapshots


@pytest.mark.parametrize("name", ["files.json", "arrays/slots.npy", "arrays/sizes.npy"])
@pytest.mark.parametrize("harm", ["gone", "cut", "changed"])
def test_a_damaged_cache_is_ignored(tmp_path, name, harm):
    stored = TokenCacheFile(tmp_path)
    terms(Analyzer(OLD, token_cache=stored.cache))
    stored.save()
    (snapshot,) = (tmp_path / "token-cache").iterdir()
    content = (snapshot / name).read_bytes()
    if harm == "gone":
        (snapshot / name).unlink()
    else:
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        (snapshot / name).write_bytes(content[:-9] if harm == "cut" else changed)
    loaded = TokenCacheFile(tmp_path)
    assert len(loaded.cache) == 0
    assert terms(Analyzer(NEW, token_cache=loaded.cache)) == terms(Analyzer(NEW))


def test_a_cache_that_cannot_be_stored_is_not_an_error(tmp_path):
    stored = TokenCacheFile(tmp_path / "missing")
    found = terms(Analyzer(OLD, token_cache=stored.cache))
    stored.save()
    assert list(tmp_path.iterdir()) == []
    assert terms(Analyzer(OLD, token_cache=stored.cache)) == found
