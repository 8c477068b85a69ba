"""A truncated, incomplete or foreign index, or one of another format: IndexDamaged names the file."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from tidings.errors import IndexDamaged, InputError
from tidings.index.builder import apply_changes, create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost
from tidings.testing.pipeline import match_index, subscription_table

QUERIES = ["cat", "cat dog -fish", '"white house"', "within:0,0,9,9", "a1 b1 c1 d1 e1 f1", "cat OR dog OR fish"]


@pytest.fixture(scope="module")
def intact(tmp_path_factory) -> Path:
    """An index of two versions: with a delta, tombstones and two layers of words."""
    folder = tmp_path_factory.mktemp("intact") / "index"
    index, _ = create_index(folder, subscription_table(QUERIES))
    apply_changes(index, subscription_table(["zebra", "lynx cat"], [1, 77]), pa.array([0], pa.int64()))
    return folder


@pytest.fixture
def folder(intact, tmp_path) -> Path:
    return Path(shutil.copytree(intact, tmp_path / "index"))


def data_files(folder: Path) -> list[str]:
    return sorted(Index.open(folder).manifest.files)


def open_error(folder: Path, **options: object) -> IndexDamaged:
    with pytest.raises(IndexDamaged) as caught:
        Index.open(folder, **options)
    assert str(caught.value.path) in str(caught.value)
    return caught.value


def write_manifest(path: Path, body: object) -> None:
    """Write a manifest with a correct checksum."""
    checksum = zlib.crc32(json.dumps(body, indent=1, sort_keys=True).encode())
    path.write_text(json.dumps({"checksum": checksum, "body": body}, indent=1, sort_keys=True))


def newest(folder: Path) -> Path:
    return sorted(folder.glob("manifest-*.json"))[-1]


def test_an_intact_index_opens_with_thorough_checks(folder):
    assert Index.open(folder, thoroughly=True).version == 2
    assert Index.open(folder, version=1, thoroughly=True).version == 1


def test_damage_is_an_input_error():
    assert issubclass(IndexDamaged, InputError)


def test_every_missing_file_is_named(folder):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert open_error(folder).path == folder / name
        (folder / name).write_bytes(content)
    Index.open(folder)


def test_every_truncated_file_is_named(folder):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        for keep in (0, len(content) // 2, len(content) - 1):
            (folder / name).write_bytes(content[:keep])
            assert open_error(folder).path == folder / name
        (folder / name).write_bytes(content)


def test_every_file_that_is_too_long_is_named(folder):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b"\0")
        assert open_error(folder).path == folder / name
        (folder / name).write_bytes(content)


def test_thorough_checks_find_a_flipped_bit(folder):
    for name in data_files(folder):
        content = bytearray((folder / name).read_bytes())
        for offset in sorted({0, len(content) // 2, len(content) - 1}):
            content[offset] ^= 4
            (folder / name).write_bytes(content)
            assert open_error(folder, thoroughly=True).path == folder / name
            content[offset] ^= 4
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("start", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"ARROW1\0\0", b"\x80\x04."])
def test_a_foreign_file_of_the_right_size_is_named_when_it_is_read(folder, start):
    for name in data_files(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes((start + b"what is this? " * len(content))[: len(content)])
        with pytest.raises(IndexDamaged) as caught:
            match_index(Index.open(folder), [RawPost("cat")], 1)
        assert caught.value.path == folder / name
        (folder / name).write_bytes(content)


def test_a_directory_instead_of_a_file_is_named(folder):
    name = data_files(folder)[0]
    (folder / name).unlink()
    (folder / name).mkdir()
    assert open_error(folder).path == folder / name


def test_a_directory_without_an_index_is_named(tmp_path):
    assert open_error(tmp_path).path == tmp_path
    assert open_error(tmp_path / "nowhere").path == tmp_path / "nowhere"


def test_a_version_that_is_not_there_is_named(folder):
    assert "manifest-00000009.json" in str(open_error(folder, version=9))


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
    assert open_error(folder).path == newest(folder)


@pytest.mark.parametrize("body", [[], 3, None, "text", {}, {"format": "other"}], ids=repr)
def test_a_foreign_manifest_is_named_even_if_its_checksum_is_right(folder, body):
    write_manifest(newest(folder), body)
    assert open_error(folder).path == newest(folder)


def test_another_format_version_is_named_with_both_versions(folder):
    body = json.loads(newest(folder).read_text())["body"]
    write_manifest(newest(folder), {**body, "format_version": body["format_version"] + 1})
    error = open_error(folder)
    assert error.path == newest(folder)
    assert str(body["format_version"]) in error.reason
    assert str(body["format_version"] + 1) in error.reason


def test_a_manifest_without_any_of_its_fields_is_named(folder):
    body = json.loads(newest(folder).read_text())["body"]
    for field in body:
        write_manifest(newest(folder), {name: value for name, value in body.items() if name != field})
        assert open_error(folder).path == newest(folder)


@pytest.mark.parametrize("field", ["files", "shards"])
@pytest.mark.parametrize("value", [3, None, [3], {"a": 3}], ids=repr)
def test_a_manifest_with_an_invalid_field_is_rejected(folder, field, value):
    body = json.loads(newest(folder).read_text())["body"]
    write_manifest(newest(folder), {**body, field: value})
    with pytest.raises(IndexDamaged):
        match_index(Index.open(folder), [RawPost("cat")], 1)


def test_an_edited_manifest_is_rejected(folder):
    newest(folder).write_text(newest(folder).read_text().replace('"subscriptions": ', '"subscriptions": 1'))
    assert "checksum" in open_error(folder).reason


def test_a_stray_manifest_is_named(folder):
    (folder / "manifest-zzz.json").write_text("{}")
    assert open_error(folder).path == folder / "manifest-zzz.json"


def test_a_partially_written_manifest_is_ignored(folder):
    (folder / "manifest-00000003.partial").write_text('{"checksum"')
    assert Index.open(folder).version == 2


def test_an_existing_index_is_not_overwritten(folder):
    before = sorted(folder.rglob("*"))
    with pytest.raises(IndexDamaged, match="there is an index in this directory"):
        create_index(folder, subscription_table(["cat"]))
    assert sorted(folder.rglob("*")) == before


def test_damage_of_one_shard_is_named_too(tmp_path):
    index, _ = create_index(tmp_path / "index", subscription_table(QUERIES), PlanRecord("hash", 3, 1))
    name = sorted(name for name in index.manifest.files if "segment-0002" in name)[0]
    (tmp_path / "index" / name).write_bytes(b"")
    assert open_error(tmp_path / "index").path == tmp_path / "index" / name
