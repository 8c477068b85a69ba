"""Files of subscriptions: every usable line is taken, every other one is named with its reason."""

from __future__ import annotations

import gzip
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.ingest.subscription_files import from_table, read_subscriptions
from tidings.schemas import SubscriptionFile, subscription_schema


def write_file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def json_lines(path: Path, *records: Any) -> SubscriptionFile:
    return read_subscriptions(write_file(path / "subs.jsonl", "".join(json.dumps(record) + "\n" for record in records)))


def csv_file(path: Path, content: str) -> SubscriptionFile:
    return read_subscriptions(write_file(path / "subs.csv", content))


def rows(result: SubscriptionFile) -> list[tuple[Any, Any]]:
    return list(zip(result.table["id"].to_pylist(), result.table["query"].to_pylist(), strict=True))


def reasons(result: SubscriptionFile) -> dict[int, str]:
    return {one.line: one.reason for one in result.rejected}


class TestText:
    def test_the_line_number_is_the_id_and_blank_lines_are_counted(self, tmp_path: Path) -> None:
        result = read_subscriptions(write_file(tmp_path / "subs.txt", "storm\n\n  \t\r\nflood warning\r\n"))
        assert rows(result) == [(1, "storm"), (4, "flood warning")]
        assert result.table["id"].type == pa.int64()
        assert result.rejected == []

    def test_a_hashtag_is_a_query_and_not_a_comment(self, tmp_path: Path) -> None:
        assert rows(read_subscriptions(write_file(tmp_path / "subs", "#storm\n# storm"))) == [
            (1, "#storm"),
            (2, "# storm"),
        ]

    def test_a_byte_order_mark_is_dropped(self, tmp_path: Path) -> None:
        assert rows(read_subscriptions(write_file(tmp_path / "subs.txt", b"\xef\xbb\xbfstorm"))) == [(1, "storm")]

    def test_only_a_newline_ends_a_line(self, tmp_path: Path) -> None:
        query = "one\u2028two\x0bthree\x85four"
        assert rows(read_subscriptions(write_file(tmp_path / "subs.txt", query + "\nnext"))) == [
            (1, query),
            (2, "next"),
        ]

    def test_a_line_that_is_not_utf8_is_rejected_alone(self, tmp_path: Path) -> None:
        result = read_subscriptions(write_file(tmp_path / "subs.txt", b"storm\ncaf\xe9\nfl\xc3\xb6te\n\xed\xa0\x80\n"))
        assert rows(result) == [(1, "storm"), (3, "flöte")]
        assert reasons(result) == {2: "the query is not valid UTF-8", 4: "the query is not valid UTF-8"}

    def test_a_compressed_file_gives_the_same(self, tmp_path: Path) -> None:
        assert rows(read_subscriptions(write_file(tmp_path / "subs.txt.gz", gzip.compress(b"storm\n")))) == [
            (1, "storm")
        ]
        assert rows(read_subscriptions(write_file(tmp_path / "plain.gz", gzip.compress(b"storm\n")))) == [(1, "storm")]

    @given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))))
    def test_every_line_that_is_not_blank_is_read_unchanged(
        self, tmp_path_factory: pytest.TempPathFactory, lines: list[str]
    ) -> None:
        path = write_file(tmp_path_factory.mktemp("text") / "subs.txt", "x\n" + "\n".join(lines))
        expected = [(at, line) for at, line in enumerate(lines, 2) if not set(line) <= blanks(line)]
        assert rows(read_subscriptions(path))[1:] == expected

    @given(st.binary())
    def test_no_bytes_stop_the_reading(self, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
        directory = tmp_path_factory.mktemp("bytes")
        for suffix in ("txt", "jsonl", "csv"):
            head = b"id,query\n" if suffix == "csv" else b" \n"
            result = read_subscriptions(write_file(directory / f"subs.{suffix}", head + content))
            assert result.table.schema == subscription_schema(result.table["id"].type)


def blanks(line: str) -> set[str]:
    return {character for character in line if character.isspace()}


class TestJsonLines:
    def test_integer_ids_stay_integers_and_string_ids_strings(self, tmp_path: Path) -> None:
        numbers = json_lines(tmp_path, {"id": 7, "query": "storm"}, {"id": -(2**63), "query": "storm"})
        assert rows(numbers) == [(7, "storm"), (-(2**63), "storm")]
        assert numbers.table["id"].type == pa.int64()
        assert rows(json_lines(tmp_path, {"id": "007", "query": "storm"})) == [("007", "storm")]

    def test_integers_beyond_64_bits_become_decimals(self, tmp_path: Path) -> None:
        result = json_lines(tmp_path, {"id": 2**63, "query": "a"}, {"id": 1, "query": "b"})
        assert result.table["id"].to_pylist() == [Decimal(2**63), Decimal(1)]

    def test_integers_beyond_38_digits_become_strings(self, tmp_path: Path) -> None:
        assert rows(json_lines(tmp_path, {"id": 10**40, "query": "a"})) == [(str(10**40), "a")]

    def test_mixed_ids_become_strings_and_may_then_collide(self, tmp_path: Path) -> None:
        result = json_lines(tmp_path, {"id": 7, "query": "a"}, {"id": "x", "query": "b"}, {"id": "7", "query": "c"})
        assert rows(result) == [("7", "a"), ("x", "b")]
        assert "the id 7 belongs to an earlier subscription" in reasons(result)[3]

    def test_an_invalid_line_does_not_stop_the_others(self, tmp_path: Path) -> None:
        bad = [
            "{not json", "[1]", '"text"', "{}", '{"id": 1.5, "query": "a"}', '{"id": true, "query": "a"}',
            '{"id": null, "query": "a"}', '{"id": "", "query": "a"}', '{"id": [1], "query": "a"}',
            '{"id": 1}', '{"id": 1, "query": null}', '{"id": 1, "query": "  "}', '{"id": 1, "query": 5}',
            '{"id": 1, "query": "a", "owner": {}}', '{"id": 1, "query": "a"} {"id": 2}', "[" * 100_000,
            '{"id": ' + "9" * 5000 + ', "query": "a"}', '{"id": NaN, "query": "a"}', '{"id": "\\ud800", "query": "a"}',
            '{"id": 1, "query": "\\udfff"}', "\x00",
        ]  # fmt: skip
        result = read_subscriptions(write_file(tmp_path / "s.jsonl", "\n".join([*bad, '{"id": 1, "query": "good"}'])))
        assert rows(result) == [(1, "good")]
        assert list(reasons(result)) == list(range(1, len(bad) + 1))

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("{", "the line is not valid JSON"),
            ("[]", "the line is not a JSON object"),
            ('{"query": "a"}', "the id is missing"),
            ('{"id": 2.0, "query": "a"}', "the id is neither a string nor an integer"),
            ('{"id": 2, "query": ["a"]}', "the query is not a string"),
            ('{"id": 2, "query": ""}', "the query and the region are missing"),
            ('{"id": 2, "query": "a", "region": [1, 2, 3]}', "the region must be four numbers"),
            ('{"id": 2, "query": "a"}{', "extra data at character 24"),
        ],
    )
    def test_a_rejected_line_has_its_reason(self, tmp_path: Path, line: str, reason: str) -> None:
        result = read_subscriptions(write_file(tmp_path / "s.ndjson", line))
        assert result.table.num_rows == 0
        assert reason in reasons(result)[1]

    def test_a_rejected_line_has_its_id(self, tmp_path: Path) -> None:
        result = json_lines(tmp_path, {"id": "mine", "query": 5}, {"query": "a"})
        assert [one.id for one in result.rejected] == ["mine", None]

    def test_the_first_of_duplicate_ids_is_kept(self, tmp_path: Path) -> None:
        result = json_lines(tmp_path, *({"id": name, "query": f"q{at}"} for at, name in enumerate("abaab")))
        assert rows(result) == [("a", "q0"), ("b", "q1")]
        assert list(reasons(result)) == [3, 4, 5]
        assert "the id a belongs to an earlier subscription" in reasons(result)[3]

    def test_a_rejected_line_does_not_reserve_its_id(self, tmp_path: Path) -> None:
        result = json_lines(tmp_path, {"id": "a", "query": ""}, {"id": "a", "query": "good"})
        assert rows(result) == [("a", "good")]

    def test_a_region_alone_is_a_subscription(self, tmp_path: Path) -> None:
        result = json_lines(
            tmp_path, {"id": 1, "region": [4, 52, 5, 53.5]}, {"id": 2, "query": "", "region": "4,52,5,53"}
        )
        assert result.table["region"].to_pylist() == [[4.0, 52.0, 5.0, 53.5], [4.0, 52.0, 5.0, 53.0]]
        assert result.table["query"].to_pylist() == [None, ""]

    @pytest.mark.parametrize(
        "region",
        [[1, 2, 3], [1, 2, 3, 4, 5], "1,2,3", "a,b,c,d", 5, True, [1, 2, 3, None], [1, 2, 3, "x"], [1, 2, 3, True],
         {"west": 1}, "[1,2", [1, 2, 3, float("nan")], [1, 2, 3, 10**400], "1,2,3,inf", [[1], 2, 3, 4], ""],
    )  # fmt: skip
    def test_a_region_that_is_not_four_numbers_is_rejected(self, tmp_path: Path, region: Any) -> None:
        result = json_lines(tmp_path, {"id": 1, "query": "a", "region": region})
        assert "the region must be four numbers" in reasons(result)[1]

    def test_a_reversed_region_is_left_to_the_query_parser(self, tmp_path: Path) -> None:
        assert json_lines(tmp_path, {"id": 1, "query": "a", "region": [500, 9, -500, -9]}).rejected == []

    def test_an_owner_is_kept_and_a_number_becomes_text(self, tmp_path: Path) -> None:
        records = [{"id": 1, "query": "a", "owner": "me"}, {"id": 2, "query": "b", "owner": 3}, {"id": 3, "query": "c"}]
        assert json_lines(tmp_path, *records).table["owner"].to_pylist() == ["me", "3", None]


class TestCsv:
    def test_ids_stay_exactly_as_written(self, tmp_path: Path) -> None:
        result = csv_file(tmp_path, "id,query\n007,storm\n1e3,flood\n x ,fire\n9999999999999999999999,ice\n")
        assert result.table["id"].to_pylist() == ["007", "1e3", " x ", "9999999999999999999999"]

    def test_columns_may_have_any_order_with_others_between(self, tmp_path: Path) -> None:
        assert rows(csv_file(tmp_path, "note, query ,id\r\nx,storm,1\r\n")) == [("1", "storm")]

    def test_a_doubled_quote_is_a_phrase(self, tmp_path: Path) -> None:
        assert rows(csv_file(tmp_path, 'id,query\n1,"""heavy rain"" storm"\n')) == [("1", '"heavy rain" storm')]

    def test_a_phrase_with_quotes_not_doubled_is_rejected_instead_of_losing_them(self, tmp_path: Path) -> None:
        result = csv_file(tmp_path, 'id,query\n1,"heavy rain" storm\n2,flood\n')
        assert rows(result) == [("2", "flood")]
        assert "the line is not valid CSV" in reasons(result)[2]

    def test_an_unclosed_quote_rejects_one_line_and_not_the_rest(self, tmp_path: Path) -> None:
        many = "".join(f"{at},storm\n" for at in range(3, 20_000))
        result = csv_file(tmp_path, f'id,query\n1,"never closed\n2,flood\n{many}')
        assert list(reasons(result)) == [2]
        assert result.table.num_rows == 19_998

    def test_a_quoted_value_may_span_lines_and_lines_are_still_counted(self, tmp_path: Path) -> None:
        result = csv_file(tmp_path, 'id,query\n1,"storm\nflood"\n\n,nameless\n')
        assert rows(result) == [("1", "storm\nflood")]
        assert reasons(result) == {5: "the id is missing"}

    def test_a_region_may_be_text_or_a_json_list(self, tmp_path: Path) -> None:
        result = csv_file(tmp_path, 'id,query,region\n1,a,"4, 52,5,53"\n2,,"[4, 52, 5, 53]"\n3,c,\n4,d,"4,52"\n')
        assert result.table["region"].to_pylist() == [[4, 52, 5, 53], [4, 52, 5, 53], None]
        assert "four numbers" in reasons(result)[5]

    def test_a_line_with_more_fields_than_the_header_is_rejected(self, tmp_path: Path) -> None:
        result = csv_file(tmp_path, "id,query\n1,storm,flood\n2\n")
        assert "the line has 3 fields, but the header has 2" in reasons(result)[2]
        assert "the query and the region are missing" in reasons(result)[3]

    @pytest.mark.parametrize("header", ["query", "id", "a;b", "1,storm", '"open'])
    def test_a_header_without_id_or_query_is_an_error(self, tmp_path: Path, header: str) -> None:
        with pytest.raises(InputError, match=r"subs\.csv: the (header|column)"):
            csv_file(tmp_path, f"{header}\n1,storm\n")


class TestParquet:
    def test_a_file_and_a_directory_give_the_same(self, tmp_path: Path) -> None:
        table = pa.table({"id": ["a", "b"], "query": ["storm", "flood"], "other": [1, 2]})
        directory = tmp_path / "subs.parquet"
        (directory / "_temporary").mkdir(parents=True)
        pq.write_table(table.slice(0, 1), directory / "part-0.parquet")
        pq.write_table(table.slice(1, 1), directory / "part-1.parquet")
        for leftover in (".part-0.parquet.crc", "_SUCCESS", "_temporary/part-9.parquet"):
            write_file(directory / leftover, "x")
        pq.write_table(table, tmp_path / "one.parquet")
        assert rows(read_subscriptions(directory)) == rows(read_subscriptions(tmp_path / "one.parquet"))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"id": [1]}, "`query` is missing"),
            ({"query": ["a"]}, "`id` is missing"),
            ({"id": [1], "query": [5]}, "`query` has type int64"),
            ({"id": [1.5], "query": ["a"]}, "`id` has type double"),
            ({"id": [1], "query": ["a"], "owner": [[1]]}, "`owner` has type list"),
            (
                {"id": [1], "query": ["a"], "region": [{"north": 1, "x": 2}]},
                "needs the fields west, south, east, north",
            ),
        ],
    )
    def test_a_missing_or_wrong_column_is_an_error(self, tmp_path: Path, content: dict[str, Any], message: str) -> None:
        pq.write_table(pa.table(content), tmp_path / "subs.parquet")
        with pytest.raises(InputError, match=rf"subs\.parquet: .*{message}"):
            read_subscriptions(tmp_path / "subs.parquet")

    def test_bytes_in_a_string_column_that_are_not_utf8_reject_their_row(self) -> None:
        text = pa.Array.from_buffers(pa.string(), 2, pa.array([b"caf\xe9", b"storm"]).buffers())
        result = from_table(pa.table({"id": [1, 2], "query": text}))
        assert rows(result) == [(2, "storm")]
        assert reasons(result) == {1: "the query is not valid UTF-8"}
        assert reasons(from_table(pa.table({"id": text, "query": ["a", "b"]}))) == {1: "the id is not valid UTF-8"}


class TestTable:
    @pytest.mark.parametrize(
        ("kind", "kept"),
        [(pa.int8(), pa.int8()), (pa.int32(), pa.int32()), (pa.uint8(), pa.int16()), (pa.uint32(), pa.int64()),
         (pa.uint64(), pa.decimal128(20, 0)), (pa.decimal128(19, 0), pa.decimal128(19, 0))],
    )  # fmt: skip
    def test_ids_get_a_type_that_spark_supports(self, kind: pa.DataType, kept: pa.DataType) -> None:
        result = from_table(pa.table({"id": pa.array([1, 2, 2]).cast(kind), "query": ["a", "b", "c"]}))
        assert result.table["id"].type == kept
        assert result.table["id"].to_pylist() == [1, 2]

    @pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
    def test_every_string_type_is_accepted(self, kind: pa.DataType) -> None:
        text = pa.array(["a", "b"]).cast(kind)
        assert rows(from_table(pa.table({"id": text, "query": text}))) == [("a", "a"), ("b", "b")]

    def test_null_and_empty_ids_are_rejected(self) -> None:
        result = from_table(pa.table({"id": ["a", None, "", "b"], "query": ["q"] * 4}))
        assert reasons(result) == {2: "the id is missing", 3: "the id is missing"}

    @pytest.mark.parametrize(
        "region",
        [
            pa.array([[1, 2, 3, 4], None], pa.list_(pa.float32())),
            pa.array([[1, 2, 3, 4], None], pa.list_(pa.int64(), 4)),
            pa.array([{"west": 1, "south": 2, "east": 3, "north": 4}, None]),
            pa.array(["1,2,3,4", None]),
        ],
    )
    def test_a_region_may_be_a_list_a_struct_or_text(self, region: pa.Array) -> None:
        result = from_table(pa.table({"id": [1, 2], "query": ["a", "b"], "region": region}))
        assert result.table["region"].to_pylist() == [[1, 2, 3, 4], None]

    def test_a_wrong_region_among_right_ones_is_rejected_alone(self) -> None:
        wrong = [[1, 2, 3], [1, 2, 3, None], [1, 2, 3, float("inf")], []]
        region = pa.array([[1, 2, 3, 4], *wrong, [5, 6, 7, 8]], pa.list_(pa.float64()))
        result = from_table(pa.table({"id": range(6), "query": ["a"] * 6, "region": region}))
        assert result.table["id"].to_pylist() == [0, 5]
        assert list(reasons(result)) == [2, 3, 4, 5]

    def test_a_null_query_is_rejected_and_not_an_error(self) -> None:
        result = from_table(pa.table({"id": [1], "query": pa.nulls(1)}))
        assert "the query and the region are missing" in reasons(result)[1]

    def test_a_chunked_table_becomes_one_table(self) -> None:
        piece = pa.table({"id": ["a"], "query": ["q"]})
        assert len(from_table(pa.concat_tables([piece, piece, piece])).rejected) == 2


class TestWholeFiles:
    @pytest.mark.parametrize("name", ["s.txt", "s.jsonl", "s.csv", "s.txt.gz", "s.jsonl.gz", "s.csv.gz"])
    def test_an_empty_file_gives_an_empty_table_with_the_schema(self, tmp_path: Path, name: str) -> None:
        path = write_file(tmp_path / name, gzip.compress(b"") if name.endswith("gz") else b"")
        result = read_subscriptions(path)
        assert result.table.num_rows == 0
        assert result.table.schema == subscription_schema(result.table["id"].type)

    @pytest.mark.parametrize("name", ["no.txt", "no.jsonl", "no.csv", "no.parquet", "no.txt.gz"])
    def test_a_missing_file_is_named(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputError, match=rf"{name}: .*[Nn]o such file"):
            read_subscriptions(tmp_path / name)

    def test_a_directory_without_files_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="the directory has no Parquet files"):
            read_subscriptions(tmp_path)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("s.parquet", b"not parquet at all", "cannot be read as Parquet"),
            ("s.parquet", b"", "cannot be read as Parquet"),
            ("s.txt.gz", b"not gzip", "the gzip file is damaged"),
            ("s.txt.gz", gzip.compress(b"storm" * 100, mtime=0)[:-9], "the gzip file is damaged"),
            ("s.txt", b"PAR1....PAR1", "Parquet, but is not named"),
            ("s.csv", "id,query\n".encode("utf-16"), "UTF-16, not UTF-8"),
        ],
    )
    def test_a_file_of_another_format_is_an_error(
        self, tmp_path: Path, name: str, content: bytes, message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            read_subscriptions(write_file(tmp_path / name, content))

    def test_the_suffix_is_case_insensitive(self, tmp_path: Path) -> None:
        assert rows(read_subscriptions(write_file(tmp_path / "S.JSONL", '{"id": "a", "query": "q"}'))) == [("a", "q")]

    def test_many_invalid_lines_cost_no_more_than_valid_ones(self, tmp_path: Path) -> None:
        content = "id,query\n" + '1,"a" b\n' * 50_000
        start = time.process_time()
        assert len(csv_file(tmp_path, content).rejected) == 50_000
        assert time.process_time() - start < 5
