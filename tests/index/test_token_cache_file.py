"""What receivers met is kept beside the index: it saves time, and never changes what is found."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.index.token_cache_file import Warmth
from tidings.text.analyzer import Receiver
from tidings.text.vocabulary import LayeredVocabulary, Vocabulary

TEXTS = pa.array([f"word{n} running cats #tag{n % 7} don't café{n % 5} {'long' * 6}{n}" for n in range(20_000)])
OLD = LayeredVocabulary([Vocabulary.build([b"cat", b"word7"])])
NEW = LayeredVocabulary([Vocabulary.build([b"run", b"#tag3", b"word7", b"cafe1", b"word19999"])])


def terms(receiver: Receiver) -> list[list[int]]:
    received = receiver.receive(TEXTS)
    return [received.terms[a:b].tolist() for a, b in received.bounds.tolist()]


@pytest.mark.parametrize("gaps", [False, True])
def test_receivers_that_share_a_memory_take_turns(gaps):
    memory = Receiver(OLD).remembered
    old, new = (Receiver(numbering, keep_gaps=gaps, remembered=memory) for numbering in (OLD, NEW))
    expected_old, expected_new = terms(Receiver(OLD, keep_gaps=gaps)), terms(Receiver(NEW, keep_gaps=gaps))
    assert expected_old != expected_new
    for _ in range(2):
        assert terms(old) == expected_old
        assert terms(new) == expected_new


def test_a_new_process_starts_with_what_others_met(tmp_path):
    first = Warmth(tmp_path)
    terms(Receiver(OLD, remembered=first.remembered))
    met = len(first.remembered)
    first.save()
    second = Warmth(tmp_path)
    assert len(second.remembered) == met
    assert terms(Receiver(NEW, remembered=second.remembered)) == terms(Receiver(NEW))
    assert len(second.remembered) == met, "nothing was new"


def test_it_is_written_again_only_when_there_is_much_more(tmp_path):
    warmth = Warmth(tmp_path)
    warmth.save()
    assert not (tmp_path / "met").exists()
    receiver = Receiver(OLD, remembered=warmth.remembered)
    receiver.receive(TEXTS)
    warmth.save()
    kept = list((tmp_path / "met").iterdir())
    receiver.receive(pa.array(["somethingnew"]))
    warmth.save()
    assert list((tmp_path / "met").iterdir()) == kept
    receiver.receive(pa.array([f"other{n}" for n in range(40_000)]))
    warmth.save()
    (only,) = (tmp_path / "met").iterdir()
    assert only not in kept


@pytest.mark.parametrize("name", ["files.json", "arrays/slots.npy", "arrays/sizes.npy"])
@pytest.mark.parametrize("harm", ["gone", "cut", "changed"])
def test_a_damaged_memory_is_passed_over(tmp_path, name, harm):
    warmth = Warmth(tmp_path)
    terms(Receiver(OLD, remembered=warmth.remembered))
    warmth.save()
    (snapshot,) = (tmp_path / "met").iterdir()
    content = (snapshot / name).read_bytes()
    if harm == "gone":
        (snapshot / name).unlink()
    else:
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        (snapshot / name).write_bytes(content[:-9] if harm == "cut" else changed)
    again = Warmth(tmp_path)
    assert len(again.remembered) == 0
    assert terms(Receiver(NEW, remembered=again.remembered)) == terms(Receiver(NEW))


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    warmth = Warmth(tmp_path / "missing")
    terms(Receiver(OLD, remembered=warmth.remembered))
    warmth.save()
