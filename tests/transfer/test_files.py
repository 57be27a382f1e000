"""Files appear whole or not at all, and are packed by name."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from rsmq.errors import InvalidExport
from rsmq.transfer import files, lines


def read(path, tell=None):
    with files.reading(str(path), tell) as file:
        return file.read()


@pytest.mark.parametrize("name", ["export.jsonl", "export.jsonl.gz"])
def test_what_is_written_is_read_and_packed_by_name(tmp_path, name):
    path = tmp_path / name
    with files.writing(str(path)) as file:
        file.write(b"a" * 3_000_000)
        assert not path.exists()
    told = []

    assert read(path, told.append) == b"a" * 3_000_000
    assert (path.stat().st_size < 100_000) == name.endswith(".gz")
    assert sum(told) == path.stat().st_size
    assert [each.name for each in tmp_path.iterdir()] == [name]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_packing_is_known_by_the_first_bytes_and_not_by_the_name(tmp_path):
    packed, plain = tmp_path / "packed", tmp_path / "plain.gz"
    packed.write_bytes(gzip.compress(b"a") + gzip.compress(b"b"))
    plain.write_bytes(b"a")

    assert read(packed) == b"ab"
    assert read(plain) == b"a"
    plain.write_bytes(b"")
    assert read(plain) == b""


@pytest.mark.parametrize("name", ["export.jsonl", "export.jsonl.gz"])
def test_an_error_leaves_what_was_there(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old")

    class Broken(Exception):
        pass

    with pytest.raises(Broken), files.writing(str(path)) as file:
        file.write(b"new" * 1_000_000)
        raise Broken
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a", tmp_path / "b"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with files.writing(str(link)) as file:
        file.write(b"new")

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with files.writing(str(pipe)) as file:
        file.write(b"a")

    assert os.read(reader, 10) == b"a"
    assert pipe.is_fifo()
    os.close(reader)
    with files.writing(os.devnull) as file:
        file.write(b"a")
    assert not Path(os.devnull).is_file()


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError), files.writing(str(tmp_path / "no" / "a")):
        pass
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "a")


def packed(data):
    return gzip.GzipFile(fileobj=io.BytesIO(data), mode="rb")


def test_gzip_that_is_cut_off_is_a_file_that_is_not_whole():
    writer_to = io.BytesIO()
    writer = lines.Writer(writer_to)
    writer.write({"type": "export", "format": 1})
    for _ in range(1000):
        writer.write({"type": "queue", "queue": os.urandom(30).hex()})
    writer.end(1000, 0)
    data = gzip.compress(writer_to.getvalue())
    whole, cut = lines.Reader(packed(data)), lines.Reader(packed(data[: len(data) // 2]))

    assert len(list(whole)) == 1001
    assert whole.fault is None
    assert 0 < len(list(cut)) < 1001
    assert cut.fault == "it has no end"


@pytest.mark.parametrize("place", [20, -5])  # within the data, and in its checksum
def test_gzip_that_is_broken_is_told_by_its_line(place):
    file = io.BytesIO()
    writer = lines.Writer(file)
    writer.write({"type": "export", "format": 1})
    writer.end(0, 0)
    data = bytearray(gzip.compress(file.getvalue()))
    data[place] ^= 0xFF
    with pytest.raises(InvalidExport, match=r"^Line [13] of the export can't be unpacked") as told:
        list(lines.Reader(packed(bytes(data))))
    assert told.value.hint.startswith("gzip: ")
