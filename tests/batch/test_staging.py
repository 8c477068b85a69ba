"""Results are published completely or not at all."""

from __future__ import annotations

import csv
import errno
import io
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.batch.staging import Output, RecordCounter
from tidings.errors import OutputError


def write_parts(folder: Path, *parts: bytes) -> None:
    folder.mkdir()
    for number, content in enumerate(parts):
        (folder / f"part-{number:05d}.csv").write_bytes(content)
        (folder / f".part-{number:05d}.csv.crc").write_bytes(b"crc")


def write_and_interrupt(output: Output) -> None:
    with output.staging() as staging:
        write_parts(staging.parts, b"1,a,1\n")
        raise KeyboardInterrupt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_parts_are_joined_to_one_file_with_one_header(tmp_path):
    with Output(tmp_path / "m.csv").staging() as staging:
        write_parts(staging.parts, b"1,a,1\n", b"", b'2,"b\nc",1\n')
        assert staging.publish() == (2, None)
    assert (tmp_path / "m.csv").read_bytes() == b'subscription_id,post_id,index_version\n1,a,1\n2,"b\nc",1\n'
    assert names(tmp_path) == ["m.csv"]


def test_json_lines_have_no_header(tmp_path):
    with Output(tmp_path / "m.jsonl").staging() as staging:
        write_parts(staging.parts, b'{"a":"\\""}\n', b"{}\n{}\n")
        assert staging.publish()[0] == 3
    assert (tmp_path / "m.jsonl").read_bytes() == b'{"a":"\\""}\n{}\n{}\n'


def test_rejected_rows_are_published_and_old_ones_deleted(tmp_path):
    for content in ("one\n", None):
        with Output(tmp_path / "m.jsonl", overwrite=True).staging() as staging:
            write_parts(staging.parts, b"{}\n")
            if content:
                staging.rejected.write_text(content)
            listed = staging.publish()[1]
        assert listed == (tmp_path / "m.jsonl.rejected.jsonl" if content else None)
    assert names(tmp_path) == ["m.jsonl"]


def test_failed_run_leaves_nothing_and_keeps_the_old_result(tmp_path):
    (tmp_path / "m.csv").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_and_interrupt(Output(tmp_path / "m.csv", overwrite=True))
    assert names(tmp_path) == ["m.csv"]
    assert (tmp_path / "m.csv").read_text() == "old"


def test_full_disk_is_an_output_error(tmp_path):
    with pytest.raises(OutputError, match="no space left"), Output(tmp_path / "m.csv").staging():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert names(tmp_path) == []


@given(
    st.lists(st.lists(st.text('ab",\r\n', max_size=6), min_size=2, max_size=2), max_size=20),
    st.integers(min_value=1, max_value=9),
)
def test_record_count_ignores_quoted_line_ends(rows, step):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    content = out.getvalue().encode()
    counter = RecordCounter(quotes=True)
    for start in range(0, len(content), step):
        counter.add(content[start : start + step])
    assert counter.count == len(rows)


def test_staging_is_deleted_although_tasks_still_write_for_a_moment(tmp_path):
    """Spark's tasks may outlive their session by some milliseconds."""
    end = time.monotonic() + 0.5

    def write_late(folder: Path) -> None:
        with suppress(FileNotFoundError):  # the folder is gone
            while time.monotonic() < end:
                (folder / f"late-{time.monotonic_ns()}").touch()

    with Output(tmp_path / "out").staging() as staging:
        writer = threading.Thread(target=write_late, args=(staging.folder,))
        writer.start()
        time.sleep(0.1)
    writer.join()
    assert list(tmp_path.iterdir()) == []
