"""An index that is truncated, incomplete, foreign or of another format is refused, and the file is named."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from tests.contract.matchers import match_index, table

from tidings.errors import IndexDamaged, InputError
from tidings.index.builder import change_index, create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.brute_force import ScanPost

QUERIES = ["cat", "cat dog -fish", '"white house"', "within:0,0,9,9", "a1 b1 c1 d1 e1 f1", "cat OR dog OR fish"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """An index of two versions: with a delta, tombstones and two layers of words."""
    folder = tmp_path_factory.mktemp("sound") / "index"
    index, _ = create_index(folder, table(QUERIES))
    change_index(index, table(["zebra", "lynx cat"], [1, 77]), pa.array([0], pa.int64()))
    return folder


@pytest.fixture
def folder(sound, tmp_path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "index"))


def data_files(folder: Path) -> list[str]:
    return sorted(Index.open(folder).manifest.files)


def refusal(folder: Path, **options: object) -> IndexDamaged:
    with pytest.raises(IndexDamaged) as caught:
        Index.open(folder, **options)
    assert str(caught.value.path) in str(caught.value)
    return caught.value


def write_manifest(path: Path, body: object) -> None:
    """A manifest whose checksum is right."""
    checksum = zlib.crc32(json.dumps(body, indent=1, sort_keys=True).encode())
    path.write_text(json.dumps({"checksum": checksum, "body": body}, indent=1, sort_keys=True))


def newest(folder: Path) -> Path:
    return sorted(folder.glob("manifest-*.json"))[-1]


def test_a_sound_index_opens_however_thoroughly_it_is_looked_at(folder):
    assert Index.open(folder, thoroughly=True).version == 2
    assert Index.open(folder, version=1, thoroughly=True).version == 1


def test_damage_is_the_callers_to_mend():
    assert issubclass(IndexDamaged, InputError)


def test_every_file_that_is_missing_is_named(folder):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert refusal(folder).path == folder / name
        (folder / name).write_bytes(content)
    Index.open(folder)


def test_every_file_that_is_truncated_is_named(folder):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        for keep in (0, len(content) // 2, len(content) - 1):
            (folder / name).write_bytes(content[:keep])
            assert refusal(folder).path == folder / name
        (folder / name).write_bytes(content)


def test_every_file_that_grew_is_named(folder):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b"\0")
        assert refusal(folder).path == folder / name
        (folder / name).write_bytes(content)


def test_a_flipped_bit_is_found_when_looked_at_thoroughly(folder):
    for name in data_files(folder):
        content = bytearray((folder / name).read_bytes())
        for place in {0, len(content) // 2, len(content) - 1}:
            content[place] ^= 4
            (folder / name).write_bytes(content)
            assert refusal(folder, thoroughly=True).path == folder / name
            content[place] ^= 4
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("start", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"ARROW1\0\0", b"\x80\x04."])
def test_a_foreign_file_of_the_right_size_is_named_when_it_is_read(folder, start):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes((start + b"what is this? " * len(content))[: len(content)])
        with pytest.raises(IndexDamaged) as caught:
            match_index(Index.open(folder), [ScanPost("cat")], 1)
        assert caught.value.path == folder / name
        (folder / name).write_bytes(content)


def test_a_directory_in_the_place_of_a_file_is_named(folder):
    name = data_files(folder)[0]
    (folder / name).unlink()
    (folder / name).mkdir()
    assert refusal(folder).path == folder / name


def test_a_directory_without_an_index_is_named(tmp_path):
    assert refusal(tmp_path).path == tmp_path
    assert refusal(tmp_path / "nowhere").path == tmp_path / "nowhere"


def test_a_version_that_is_not_there_is_named(folder):
    assert "manifest-00000009.json" in str(refusal(folder, version=9))


GARBAGE = [
    b"",
    b"{",
    b"[]",
    b"3",
    b"null",
    b'"text"',
    b"\xff\xfe\x00",
    b"{}",
    b'{"body": {}}',
    b'{"checksum": 1, "body": {}}',
]


@pytest.mark.parametrize("content", [*GARBAGE, b"[" * 100_000], ids=lambda content: repr(content[:20]))
def test_a_manifest_that_is_garbage_is_named(folder, content):
    newest(folder).write_bytes(content)
    assert refusal(folder).path == newest(folder)


@pytest.mark.parametrize("body", [[], 3, None, "text", {}, {"format": "other"}], ids=repr)
def test_a_foreign_manifest_is_named_even_if_its_checksum_is_right(folder, body):
    write_manifest(newest(folder), body)
    assert refusal(folder).path == newest(folder)


def test_another_format_version_is_named_with_both_versions(folder):
    body = json.loads(newest(folder).read_text())["body"]
    write_manifest(newest(folder), {**body, "format_version": body["format_version"] + 1})
    told = refusal(folder)
    assert told.path == newest(folder)
    assert str(body["format_version"]) in told.reason
    assert str(body["format_version"] + 1) in told.reason


def test_a_manifest_that_lacks_any_field_is_named(folder):
    body = json.loads(newest(folder).read_text())["body"]
    for field in body:
        write_manifest(newest(folder), {name: value for name, value in body.items() if name != field})
        assert refusal(folder).path == newest(folder)


@pytest.mark.parametrize("field", ["files", "shards"])
@pytest.mark.parametrize("value", [3, None, [3], {"a": 3}], ids=repr)
def test_a_manifest_with_nonsense_in_a_field_is_refused(folder, field, value):
    body = json.loads(newest(folder).read_text())["body"]
    write_manifest(newest(folder), {**body, field: value})
    with pytest.raises(IndexDamaged):
        match_index(Index.open(folder), [ScanPost("cat")], 1)


def test_a_manifest_changed_by_hand_is_refused(folder):
    newest(folder).write_text(newest(folder).read_text().replace('"subscriptions": ', '"subscriptions": 1'))
    assert "checksum" in refusal(folder).reason


def test_a_stray_manifest_is_named(folder):
    (folder / "manifest-zzz.json").write_text("{}")
    assert refusal(folder).path == folder / "manifest-zzz.json"


def test_a_half_written_manifest_is_not_seen(folder):
    (folder / "manifest-00000003.partial").write_text('{"checksum"')
    assert Index.open(folder).version == 2


def test_a_directory_that_holds_an_index_is_not_written_over(folder):
    before = sorted(folder.rglob("*"))
    with pytest.raises(IndexDamaged, match="holds an index already"):
        create_index(folder, table(["cat"]))
    assert sorted(folder.rglob("*")) == before


def test_damage_of_one_shard_is_named_too(tmp_path):
    index, _ = create_index(tmp_path / "index", table(QUERIES), PlanRecord("hash", 3, 1))
    name = sorted(name for name in index.manifest.files if "segment-0002" in name)[0]
    (tmp_path / "index" / name).write_bytes(b"")
    assert refusal(tmp_path / "index").path == tmp_path / "index" / name
