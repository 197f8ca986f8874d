import gzip

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsac.cli.reading import TableError, read_table
from nsac.cli.tables import find_columns

GOOD = "time,a,kind,y\n2024-01-01,1.5,red,2\n2024-01-02,,blue,3\n2024-01-03,2.5,red,4.25\n"


def written(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(tmp_path, content, name="table.csv"):
    with pytest.raises(TableError) as err:
        read_table(written(tmp_path, content, name))
    assert "\n" not in str(err.value)
    return str(err.value)


def test_a_csv_file_is_read(tmp_path):
    frame = read_table(written(tmp_path, GOOD))
    assert list(frame.columns) == ["time", "a", "kind", "y"] and frame["y"].tolist() == [2, 3, 4.25]


def test_an_empty_field_is_a_missing_value(tmp_path):
    assert read_table(written(tmp_path, GOOD))["a"].isna().tolist() == [False, True, False]


def test_a_gzipped_file_is_the_same_table(tmp_path):
    gzipped = written(tmp_path, gzip.compress(GOOD.encode(), mtime=0), "t.csv.gz")
    pd.testing.assert_frame_equal(read_table(gzipped), read_table(written(tmp_path, GOOD)))


def test_a_parquet_file_is_the_same_table(tmp_path):
    frame = read_table(written(tmp_path, GOOD))
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(frame, read_table(tmp_path / "t.parquet"))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_detected(tmp_path, delimiter):
    frame = read_table(written(tmp_path, GOOD.replace(",", delimiter)))
    pd.testing.assert_frame_equal(frame, read_table(written(tmp_path, GOOD, "comma.csv")))


def test_a_decimal_comma_and_a_byte_order_mark_are_read(tmp_path):
    frame = read_table(written(tmp_path, "\ufeffx;y\r\n1,5;2\r\n-2,25;3\r\n"))
    assert list(frame.columns) == ["x", "y"] and frame["x"].tolist() == [1.5, -2.25]


def test_a_column_without_a_name_is_dropped(tmp_path):
    frame = read_table(written(tmp_path, ",x,y\n0,5,6\n1,7,8\n"))
    assert list(frame.columns) == ["x", "y"] and frame["x"].tolist() == [5, 7]


def test_a_dropped_column_is_reported(tmp_path, capsys):
    read_table(written(tmp_path, ",x,y\n0,5,6\n1,7,8\n"))
    note = capsys.readouterr().err
    assert note.startswith("Note: ") and "dropped column 1" in note and note.count("\n") == 1


def test_a_column_of_numbers_may_be_read_as_text(tmp_path):
    path = written(tmp_path, "zip,y\n01234,1\n98765,2\nA1,3\n")
    assert read_table(path, text=["zip"])["zip"].tolist() == ["01234", "98765", "A1"]


def test_text_in_a_numeric_column_suggests_a_category(tmp_path):
    message = refused(tmp_path, "zip,y\n01234,1\n98765,2\nA1,3\n")
    assert (
        "column 'zip' is numeric, but row 3 below the header contains 'A1'" in message and "--category zip" in message
    )


def test_columns_that_are_not_needed_stay_as_they_are_in_the_file(tmp_path):
    path = written(tmp_path, 'x,id,code,na,note\n1,12345678901234567,00042,NA,"a, b"\nNA,0.10,1e5,,"2,5"\n')
    frame = read_table(path, needed=["x"])
    assert frame["x"].isna().tolist() == [False, True]
    assert frame.drop(columns="x").to_csv(index=False) == (
        'id,code,na,note\n12345678901234567,00042,NA,"a, b"\n0.10,1e5,,"2,5"\n'
    )


def test_whole_numbers_of_parquet_stay_whole_beside_missing_ones(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "id": pd.array([12345678901234567, None], dtype="Int64")})
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", needed=["x"])["id"].tolist() == [12345678901234567, pd.NA]


@pytest.mark.parametrize("text", ['"a,b";c\n1;2\n', '"a,b",c\n1,2\n', ' "a,b" ; c \n1;2\n', '\n\n"a,b"\tc\n\n1\t2\n'])
def test_quoted_names_may_contain_delimiters(tmp_path, text):
    frame = read_table(written(tmp_path, text))
    assert list(frame.columns) == ["a,b", "c"] and frame.iloc[0].tolist() == [1, 2]


@pytest.mark.parametrize("text", ["x,y\tz\n1\t2\n3\t4\n", "a;b|x,y;c\n1|2\n3|4\n"])
def test_the_delimiter_splits_rows_like_the_header(tmp_path, text):
    assert read_table(written(tmp_path, text)).to_numpy().tolist() == [[1, 2], [3, 4]]


def test_fields_of_spaces_are_missing_values(tmp_path):
    frame = read_table(written(tmp_path, 'x,k,y\n1," ",2\n" NA ",red,3\n2,blue,"  "\n'))
    assert frame.isna().to_numpy().tolist() == [[False, True, False], [True, False, False], [False, False, True]]
    assert frame["x"].dtype == float and frame["y"].dtype == float


def test_decimal_commas_are_reported(tmp_path, capsys):
    read_table(written(tmp_path, "x;y\n1,5;2\n"))
    assert "decimal commas" in capsys.readouterr().err


def test_thousands_separators_are_no_text_in_a_numeric_column(tmp_path):
    assert read_table(written(tmp_path, 'x,y\n950,1\n"1,100",2\n980,3\n'))["x"].tolist() == ["950", "1,100", "980"]


@pytest.mark.parametrize("wrong", ["error", "82.9"])
def test_the_wrong_value_among_decimal_commas_is_named(tmp_path, wrong):
    with pytest.raises(TableError, match=f"row 3 below the header contains '{wrong}'"):
        read_table(written(tmp_path, f"x;y\n0,78;1\n1,5;2\n{wrong};3\n2,5;4\n"))


@pytest.mark.parametrize(("texts", "numbers"), [(("0,78", "1.234,5"), [0.78, 1234.5]), (("1.500", "4"), [1500, 4])])
def test_thousands_in_a_file_with_decimal_commas_are_numbers(tmp_path, texts, numbers):
    frame = read_table(written(tmp_path, f"x;y\n{texts[0]};0,5\n{texts[1]};2\n"))
    assert frame["x"].tolist() == numbers


def test_commas_in_texts_of_other_files_are_no_decimal_commas(tmp_path):
    frame = read_table(written(tmp_path, 'x,y\n"12,34",1\n"12,35",2\na,3\n192.168.100.200,4\n'))
    assert frame["x"].tolist() == ["12,34", "12,35", "a", "192.168.100.200"]


def test_dates_with_points_are_no_numbers(tmp_path):
    frame = read_table(written(tmp_path, "x;y\n01.02.2020;1,5\n02.02.2020;2\nlater;3\n"))
    assert frame["x"].tolist() == ["01.02.2020", "02.02.2020", "later"]


def test_names_that_differ_are_not_suggested(tmp_path):
    frame = read_table(written(tmp_path, "river,x\n1,2\n"))
    with pytest.raises(TableError, match="no column 'price'. Its columns are: river, x.$"):
        find_columns(frame, ["price"], tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n  \n", "is empty"),
        ("a,b\n", "no rows"),
        ("a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("1.5,2\n3,4\n", "numbers in its first line"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields, the header has 2"),
        ("a,b\n1,2,3\n4,5,6\n", "more fields than its header"),
        ("a,b\n1,2\nabc,3\n4,5\n", "'a' is numeric, but row 2 below the header contains 'abc'"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "binary data"),
        (b"a,b\n1,\xff\xfe\xfd\n", "UTF-8"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-12], "not a complete gzip file"),
        (b"PAR1 and then nothing", "not a complete Parquet file"),
    ],
)
def test_an_unreadable_file_is_one_line(tmp_path, content, message):
    assert message in refused(tmp_path, content)


@pytest.mark.parametrize("name", ["nothing.csv", "."])
def test_a_missing_file_and_a_folder_are_refused(tmp_path, name):
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / name)


def test_an_unknown_column_suggests_the_closest_one(tmp_path):
    frame = read_table(written(tmp_path, GOOD))
    with pytest.raises(TableError, match="no column 'timee'. Did you mean 'time'"):
        find_columns(frame, ["y", "timee"], tmp_path)


def test_without_pyarrow_the_extra_to_install_is_named(tmp_path, monkeypatch):
    def missing(*_, **__):
        raise ImportError("pyarrow")

    monkeypatch.setattr(pd, "read_parquet", missing)
    assert "nsac[parquet]" in refused(tmp_path, b"PAR1....PAR1")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text("0123456789.,;\t\n\"'ab-eNA ", max_size=120).map(str.encode))
def test_any_bytes_are_a_table_or_a_named_error(tmp_path_factory, content):
    path = written(tmp_path_factory.mktemp("fuzz", numbered=True), content)
    try:
        frame = read_table(path)
    except TableError as err:
        assert "\n" not in str(err)
    else:
        assert len(frame) and frame.columns.is_unique


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from(["csv", "gz", "parquet"]))
def test_a_flipped_byte_is_a_table_or_a_named_error(tmp_path_factory, position, byte, kind):
    folder = tmp_path_factory.mktemp("flip", numbered=True)
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"], "y": [1, 2, 3]})
    if kind == "parquet":
        frame.to_parquet(folder / "t")
        content = bytearray((folder / "t").read_bytes())
    else:
        content = bytearray(frame.to_csv(index=False).encode())
        content = bytearray(gzip.compress(content, mtime=0)) if kind == "gz" else content
    content[position % len(content)] = byte
    try:
        read_table(written(folder, bytes(content), "t"))
    except TableError as err:
        assert "\n" not in str(err)
