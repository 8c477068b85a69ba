"""Local copies of a shared index: one per machine, complete, repaired when damaged, evicted when old."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tidings.errors import IndexDamaged, InputError
from tidings.index.builder import apply_changes, create_index, merge_index
from tidings.index.files import FileRecord
from tidings.index.local_cache import IndexCache
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost
from tidings.testing.pipeline import match_index, subscription_table

QUERIES = ["cat", "cat dog -fish", '"white house"', "within:0,0,9,9", "cat OR dog OR fish"]
POSTS = [RawPost("cats and dogs"), RawPost("a white house"), RawPost("lynx", 3.0, 3.0), RawPost("zebra fish")]
OPEN = """
import sys
from pathlib import Path
from tidings.index.files import FileRecord
from tidings.index.local_cache import IndexCache
cached = IndexCache(Path(sys.argv[1])).open(Path(sys.argv[2]), 1)
print(sum(len(view.segment) for view in cached.index.open_shard(0)), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[None, PlanRecord("hash", 3, 7)], ids=["replicated", "partitioned"])
def shared(request, tmp_path) -> Path:
    """An index of two versions: the second with a delta, tombstones and a second layer of words."""
    folder = tmp_path / "shared"
    index, _ = create_index(folder, subscription_table(QUERIES), request.param)
    apply_changes(index, subscription_table(["zebra", "lynx cat"], [1, 77]), pa.array([0], pa.int64()))
    return folder


@pytest.fixture
def simple(tmp_path) -> Path:
    folder = tmp_path / "simple"
    create_index(folder, subscription_table(QUERIES))
    return folder


def copied_files(root: Path) -> dict[str, int]:
    """Return every copied file and its inode, which differs after copying again."""
    files = (path for path in root.glob("entries-*/*/*") if path.is_file())
    return {f"{path.parent.name}/{path.name}": path.stat().st_ino for path in files}


def partial_copies(root: Path) -> list[Path]:
    return list(root.glob("partial-*"))


@pytest.mark.parametrize("version", [1, 2])
def test_an_index_of_copies_matches_like_the_shared_one(shared, tmp_path, version):
    index = IndexCache(tmp_path / "cache").open(shared, version).index
    assert index.version == version
    expected = match_index(Index.open(shared, version), POSTS, 2)
    shutil.rmtree(shared)
    assert match_index(index, POSTS, 2) == expected
    assert len(expected) > 3


def test_opening_again_copies_nothing(shared, tmp_path):
    root = tmp_path / "cache"
    IndexCache(root).open(shared, 1)
    before = copied_files(root)
    IndexCache(root).open(shared, 1)
    assert copied_files(root) == before
    assert len(before) == len(Index.open(shared, 1).manifest.files)


def test_a_second_version_copies_only_its_new_files(shared, tmp_path):
    root = tmp_path / "cache"
    IndexCache(root).open(shared, 1)
    before = copied_files(root)
    IndexCache(root).open(shared, 2)
    after = copied_files(root)
    new = set(Index.open(shared, 2).manifest.files) - set(Index.open(shared, 1).manifest.files)
    assert before.items() <= after.items()
    assert len(after) == len(before) + len(new)
    assert len(new) > 0


def test_equal_content_of_another_index_is_not_copied_again(simple, tmp_path):
    root, rebuilt = tmp_path / "cache", tmp_path / "rebuilt"
    IndexCache(root).open(simple, 1)
    before = copied_files(root)
    create_index(rebuilt, subscription_table(QUERIES))
    assert {path.name for path in rebuilt.iterdir()} != {path.name for path in simple.iterdir()}
    index = IndexCache(root).open(rebuilt, 1).index
    assert copied_files(root) == before
    assert match_index(index, POSTS, 2) == match_index(Index.open(simple), POSTS, 2)


def test_two_simultaneous_processes_make_one_copy(simple, tmp_path):
    root = tmp_path / "cache"
    command = [sys.executable, "-c", OPEN, str(root), str(simple)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=400)[0] for process in started] == [f"{len(QUERIES)}\n"] * 2
    assert len(copied_files(root)) == len(Index.open(simple).manifest.files)
    assert partial_copies(root) == []
    before = copied_files(root)
    assert match_index(IndexCache(root).open(simple, 1).index, POSTS, 2) == match_index(Index.open(simple), POSTS, 2)
    assert copied_files(root) == before


@pytest.mark.parametrize("harm", ["cut", "gone", "longer"])
def test_a_damaged_copy_is_replaced(simple, tmp_path, harm):
    root = tmp_path / "cache"
    IndexCache(root).open(simple, 1)
    (victim,) = root.glob("entries-*/segment-*/anchors.npy")
    good = victim.read_bytes()
    victim.unlink()
    if harm != "gone":
        victim.write_bytes(good[:-1] if harm == "cut" else good + b"x")
    index = IndexCache(root).open(simple, 1).index
    assert victim.read_bytes() == good
    assert match_index(index, POSTS, 2) == match_index(Index.open(simple), POSTS, 2)


def test_a_failed_copy_is_repeated(simple, tmp_path, monkeypatch):
    is_wrong = []

    def copy_badly_once(source: Path, target: Path) -> None:
        content = Path(source).read_bytes()
        is_wrong.append(not is_wrong)
        Path(target).write_bytes(bytes(len(content)) if is_wrong[-1] else content)

    monkeypatch.setattr("shutil.copyfile", copy_badly_once)
    index = IndexCache(tmp_path / "cache").open(simple, 1).index
    assert is_wrong.count(True) == 1
    assert match_index(index, POSTS, 2) == match_index(Index.open(simple), POSTS, 2)


@pytest.mark.parametrize(
    ("harm", "message"), [("gone", "missing"), ("cut", "bytes instead of"), ("changed", "checksum")]
)
def test_a_damaged_shared_file_is_named_and_not_copied(simple, tmp_path, harm, message):
    (victim,) = simple.glob("segment-*/anchors.npy")
    content = victim.read_bytes()
    victim.unlink()
    if harm != "gone":
        victim.write_bytes(content[:-1] if harm == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    root = tmp_path / "cache"
    with pytest.raises(IndexDamaged, match=message) as caught:
        IndexCache(root).open(simple, 1)
    assert caught.value.path == victim
    assert not list(root.glob("entries-*/segment-*"))
    assert partial_copies(root) == []


def test_the_least_recently_used_entry_is_evicted_first(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    queries = [[*QUERIES, query] for query in ("lynx", "lynx OR zebra", "storm zebra")]
    indexes = [create_index(folder, subscription_table(rows))[0] for folder, rows in zip(folders, queries, strict=True)]
    sizes, root = [index.size_bytes for index in indexes], tmp_path / "cache"
    cache = IndexCache(root, limit_bytes=sum(sizes) - 1)
    for folder in (folders[0], folders[1], folders[0], folders[2]):
        cache.open(folder, 1)
        gc.collect()
    checksums = {FileRecord.of(path) for path in root.glob("entries-*/*/*") if path.is_file()}
    is_complete = [set(index.manifest.files.values()) <= checksums for index in indexes]
    assert is_complete == [True, False, True]


def test_entries_in_use_are_not_evicted(simple, tmp_path):
    root, other = tmp_path / "cache", tmp_path / "other"
    create_index(other, subscription_table(["lynx", "zebra"]))
    used = IndexCache(root, limit_bytes=0).open(simple, 1)
    IndexCache(root, limit_bytes=0).open(other, 1)
    assert match_index(used.index, POSTS, 2) == match_index(Index.open(simple), POSTS, 2)


def test_entries_of_another_process_stay_until_it_ends(simple, tmp_path):
    root, others = tmp_path / "cache", [tmp_path / "b", tmp_path / "c"]
    for folder, query in zip(others, ("lynx", "zebra"), strict=True):
        create_index(folder, subscription_table([query]))
    command = [sys.executable, "-c", OPEN, str(root), str(simple)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = copied_files(root)
        IndexCache(root, limit_bytes=0).open(others[0], 1)
        assert before.items() <= copied_files(root).items()
        process.kill()
    IndexCache(root, limit_bytes=0).open(others[1], 1)
    assert not before.items() & copied_files(root).items()


def test_partial_copies_of_a_killed_process_are_deleted(simple, tmp_path):
    root = tmp_path / "cache"
    IndexCache(root)
    (root / "partial-killed").mkdir()
    (root / "entries-before-the-last-boot").mkdir()
    IndexCache(root).open(simple, 1)
    assert partial_copies(root) == []
    assert len(list(root.glob("entries-*"))) == 1


def test_a_merged_version_needs_no_files_of_earlier_versions(simple, tmp_path):
    merged = merge_index(Index.open(simple))
    cached = IndexCache(tmp_path / "cache").open(simple, merged.version)
    assert match_index(cached.index, POSTS, 2) == match_index(Index.open(simple, 1), POSTS, 2)
    assert cached.scratch.is_dir()


def test_the_folder_is_private_to_the_user(tmp_path):
    IndexCache(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    for folder in ("open", "link"):
        with pytest.raises(OSError, match="other users can access"):
            IndexCache(tmp_path / folder)


def test_folder_and_limit_come_from_the_environment(simple, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDINGS_CACHE_DIR", str(tmp_path))
    IndexCache().open(simple, 1)
    assert copied_files(tmp_path / f"tidings-cache-{os.getuid()}")
    monkeypatch.setenv("TIDINGS_CACHE_GB", "much")
    with pytest.raises(InputError, match="TIDINGS_CACHE_GB"):
        IndexCache()
