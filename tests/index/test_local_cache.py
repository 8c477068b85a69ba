"""Copies of a shared index: each file once a machine, whole or not at all, the damaged replaced, the old evicted."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.contract.matchers import match_index, table

from tidings.errors import IndexDamaged, InputError
from tidings.index import local_cache as caching
from tidings.index.builder import change_index, create_index, merge_index
from tidings.index.local_cache import Cache
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.brute_force import ScanPost

QUERIES = ["cat", "cat dog -fish", '"white house"', "within:0,0,9,9", "cat OR dog OR fish"]
POSTS = [ScanPost("cats and dogs"), ScanPost("a white house"), ScanPost("lynx", 3.0, 3.0), ScanPost("zebra fish")]
OPEN = """
import sys
from pathlib import Path
from tidings.index.local_cache import Cache
cached = Cache(Path(sys.argv[1])).open(Path(sys.argv[2]), 1)
print(sum(len(live.segment) for live in cached.index.shard(0)), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[None, PlanRecord("hash", 3, 7)], ids=["replicated", "partitioned"])
def shared(request, tmp_path) -> Path:
    """An index of two versions: the second with a delta, tombstones and a second layer of words."""
    folder = tmp_path / "shared"
    index, _ = create_index(folder, table(QUERIES), request.param)
    change_index(index, table(["zebra", "lynx cat"], [1, 77]), pa.array([0], pa.int64()))
    return folder


@pytest.fixture
def one(tmp_path) -> Path:
    folder = tmp_path / "one"
    create_index(folder, table(QUERIES))
    return folder


def kept(root: Path) -> dict[str, int]:
    """Every copied file and its inode: a file that was copied again has another one."""
    files = (path for path in root.glob("entries-*/*/*") if path.is_file())
    return {f"{path.parent.name}/{path.name}": path.stat().st_ino for path in files}


def left_over(root: Path) -> list[Path]:
    return list(root.glob("partial-*"))


@pytest.mark.parametrize("version", [1, 2])
def test_an_index_opened_from_copies_finds_what_the_shared_one_finds(shared, tmp_path, version):
    index = Cache(tmp_path / "cache").open(shared, version).index
    assert index.version == version
    expected = match_index(Index.open(shared, version), POSTS, 2)
    shutil.rmtree(shared)
    assert match_index(index, POSTS, 2) == expected
    assert len(expected) > 3


def test_opening_again_copies_nothing(shared, tmp_path):
    root = tmp_path / "cache"
    Cache(root).open(shared, 1)
    before = kept(root)
    Cache(root).open(shared, 1)
    assert kept(root) == before
    assert len(before) == len(Index.open(shared, 1).manifest.files)


def test_a_second_version_copies_only_its_new_files(shared, tmp_path):
    root = tmp_path / "cache"
    Cache(root).open(shared, 1)
    before = kept(root)
    Cache(root).open(shared, 2)
    after = kept(root)
    new = set(Index.open(shared, 2).manifest.files) - set(Index.open(shared, 1).manifest.files)
    assert before.items() <= after.items()
    assert len(after) == len(before) + len(new)
    assert len(new) > 0


def test_two_processes_at_once_end_with_one_good_copy(one, tmp_path):
    root = tmp_path / "cache"
    command = [sys.executable, "-c", OPEN, str(root), str(one)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=400)[0] for process in started] == [f"{len(QUERIES)}\n"] * 2
    assert len(kept(root)) == len(Index.open(one).manifest.files)
    assert left_over(root) == []
    before = kept(root)
    assert match_index(Cache(root).open(one, 1).index, POSTS, 2) == match_index(Index.open(one), POSTS, 2)
    assert kept(root) == before


@pytest.mark.parametrize("harm", ["cut", "gone", "longer"])
def test_a_damaged_copy_is_replaced(one, tmp_path, harm):
    root = tmp_path / "cache"
    Cache(root).open(one, 1)
    (victim,) = root.glob("entries-*/segment-*/keys.npy")
    good = victim.read_bytes()
    victim.unlink()
    if harm != "gone":
        victim.write_bytes(good[:-1] if harm == "cut" else good + b"x")
    index = Cache(root).open(one, 1).index
    assert victim.read_bytes() == good
    assert match_index(index, POSTS, 2) == match_index(Index.open(one), POSTS, 2)


def test_a_copy_that_went_wrong_is_made_again(one, tmp_path, monkeypatch):
    wrong = []

    def copy_badly_once(source: Path, target: Path) -> None:
        content = Path(source).read_bytes()
        wrong.append(not wrong)
        Path(target).write_bytes(bytes(len(content)) if wrong[-1] else content)

    monkeypatch.setattr(caching.shutil, "copyfile", copy_badly_once)
    index = Cache(tmp_path / "cache").open(one, 1).index
    assert wrong.count(True) == 1
    assert match_index(index, POSTS, 2) == match_index(Index.open(one), POSTS, 2)


@pytest.mark.parametrize(("harm", "said"), [("gone", "missing"), ("cut", "bytes instead of"), ("changed", "checksum")])
def test_a_shared_file_that_is_not_sound_is_named_and_nothing_of_it_kept(one, tmp_path, harm, said):
    (victim,) = one.glob("segment-*/keys.npy")
    content = victim.read_bytes()
    victim.unlink()
    if harm != "gone":
        victim.write_bytes(content[:-1] if harm == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    root = tmp_path / "cache"
    with pytest.raises(IndexDamaged, match=said) as caught:
        Cache(root).open(one, 1)
    assert caught.value.path == victim
    assert not list(root.glob("entries-*/segment-*"))
    assert left_over(root) == []


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    sizes = [create_index(folder, table(QUERIES))[0].size_bytes for folder in folders]
    root = tmp_path / "cache"
    cache = Cache(root, limit_bytes=sum(sizes) - 1)
    for folder in (folders[0], folders[1], folders[0], folders[2]):
        cache.open(folder, 1)
        gc.collect()
    names = {name.rpartition("-")[0] for name in {path.split("/")[0] for path in kept(root)}}
    inside = [{path.parent.name for path in folder.glob("*/*.npy")} for folder in folders]
    assert inside[0] <= names
    assert inside[2] <= names
    assert not inside[1] <= names


def test_nothing_in_use_goes_though_there_is_no_room(one, tmp_path):
    root, other = tmp_path / "cache", tmp_path / "other"
    create_index(other, table(["lynx", "zebra"]))
    used = Cache(root, limit_bytes=0).open(one, 1)
    Cache(root, limit_bytes=0).open(other, 1)
    assert match_index(used.index, POSTS, 2) == match_index(Index.open(one), POSTS, 2)


def test_what_another_process_uses_stays_until_it_ends(one, tmp_path):
    root, others = tmp_path / "cache", [tmp_path / "b", tmp_path / "c"]
    for folder in others:
        create_index(folder, table(["lynx", "zebra"]))
    command = [sys.executable, "-c", OPEN, str(root), str(one)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = kept(root)
        Cache(root, limit_bytes=0).open(others[0], 1)
        assert before.items() <= kept(root).items()
        process.kill()
    Cache(root, limit_bytes=0).open(others[1], 1)
    assert not before.items() & kept(root).items()


def test_what_a_killed_process_left_half_made_goes(one, tmp_path):
    root = tmp_path / "cache"
    Cache(root)
    (root / "partial-killed").mkdir()
    (root / "entries-before-the-machine-went-down").mkdir()
    Cache(root).open(one, 1)
    assert left_over(root) == []
    assert len(list(root.glob("entries-*"))) == 1


def test_a_merged_version_needs_nothing_of_those_before_it(one, tmp_path):
    merged = merge_index(Index.open(one))
    cached = Cache(tmp_path / "cache").open(one, merged.version)
    assert match_index(cached.index, POSTS, 2) == match_index(Index.open(one, 1), POSTS, 2)
    assert cached.notes.is_dir()


def test_the_folder_is_of_this_user_alone(tmp_path):
    Cache(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    for folder in ("open", "link"):
        with pytest.raises(OSError, match="this user alone"):
            Cache(tmp_path / folder)


def test_place_and_limit_come_from_the_environment(one, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDINGS_CACHE_DIR", str(tmp_path))
    Cache().open(one, 1)
    assert kept(tmp_path / f"tidings-cache-{os.getuid()}")
    monkeypatch.setenv("TIDINGS_CACHE_GB", "much")
    with pytest.raises(InputError, match="TIDINGS_CACHE_GB"):
        Cache()
