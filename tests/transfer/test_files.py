"""Files of exports: complete or absent, and compressed by name."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path

import pytest

from rsmq.errors import InvalidExport
from rsmq.transfer import files, lines


def read(path, report_progress=None):
    with files.reading(str(path), report_progress) as file:
        return file.read()


@pytest.mark.parametrize("name", ["export.jsonl", "export.jsonl.gz"])
def test_written_data_is_read_again_and_compressed_by_name(tmp_path, name):
    path = tmp_path / name
    with files.writing(str(path)) as file:
        file.write(b"a" * 3_000_000)
        assert not path.exists()
    read_sizes = []

    assert read(path, read_sizes.append) == b"a" * 3_000_000
    assert (path.stat().st_size < 100_000) == name.endswith(".gz")
    assert sum(read_sizes) == path.stat().st_size
    assert [each.name for each in tmp_path.iterdir()] == [name]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_compression_is_detected_by_the_first_bytes(tmp_path):
    compressed, plain = tmp_path / "packed", tmp_path / "plain.gz"
    compressed.write_bytes(gzip.compress(b"a") + gzip.compress(b"b"))
    plain.write_bytes(b"a")

    assert read(compressed) == b"ab"
    assert read(plain) == b"a"
    plain.write_bytes(b"")
    assert read(plain) == b""


@pytest.mark.parametrize("name", ["export.jsonl", "export.jsonl.gz"])
def test_error_keeps_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old")

    class Broken(Exception):
        pass

    with pytest.raises(Broken), files.writing(str(path)) as file:
        file.write(b"new" * 1_000_000)
        raise Broken
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_symbolic_link_is_kept_and_its_target_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a", tmp_path / "b"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with files.writing(str(link)) as file:
        file.write(b"new")

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_special_file_is_written_to_and_not_replaced(tmp_path):
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


def test_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), files.writing(str(tmp_path / "no" / "a")):
        pass
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "a")


def gzip_file(data):
    return gzip.GzipFile(fileobj=io.BytesIO(data), mode="rb")


def test_each_whole_line_of_a_truncated_gzip_file_is_read(tmp_path):
    path = tmp_path / "export.jsonl.gz"
    with files.writing(str(path)) as file:
        writer = lines.Writer(file)
        writer.write({"type": "export", "format": 1})
        for _ in range(30_000):  # more than the buffers hold
            writer.write({"type": "queue", "queue": os.urandom(30).hex()})
        writer.end(30_000, 0)
    data = path.read_bytes()
    for size in (len(data) * 2 // 3, len(data) // 3, 2000):
        path.write_bytes(data[:size])
        readable = zlib.decompressobj(31).decompress(data[:size])
        with files.reading(str(path)) as file:
            reader = lines.Reader(file)
            number = len(list(reader))

        assert number == readable.count(b"\n")
        assert reader.fault == "it has no end"


def test_truncated_gzip_is_an_incomplete_file():
    output = io.BytesIO()
    writer = lines.Writer(output)
    writer.write({"type": "export", "format": 1})
    for _ in range(1000):
        writer.write({"type": "queue", "queue": os.urandom(30).hex()})
    writer.end(1000, 0)
    data = gzip.compress(output.getvalue())
    complete, truncated = (
        lines.Reader(gzip_file(data)),
        lines.Reader(gzip_file(data[: len(data) // 2])),
    )

    assert len(list(complete)) == 1001
    assert complete.fault is None
    assert 0 < len(list(truncated)) < 1001
    assert truncated.fault == "it has no end"


@pytest.mark.parametrize("offset", [20, -5])  # in the data, and in its checksum
def test_corrupt_gzip_is_reported_with_its_line(offset):
    file = io.BytesIO()
    writer = lines.Writer(file)
    writer.write({"type": "export", "format": 1})
    writer.end(0, 0)
    data = bytearray(gzip.compress(file.getvalue()))
    data[offset] ^= 0xFF
    with pytest.raises(
        InvalidExport, match=r"^Line [13] of the export can't be unpacked"
    ) as caught:
        list(lines.Reader(gzip_file(bytes(data))))
    assert caught.value.hint.startswith("gzip: ")


def test_interrupt_while_compressing_is_raised_as_it_is(tmp_path, monkeypatch):
    checks = 0

    def closed(file):
        nonlocal checks
        checks += 1
        if checks == 3:
            raise KeyboardInterrupt
        return file.fileobj is None

    monkeypatch.setattr(gzip.GzipFile, "closed", property(closed))
    path = tmp_path / "export.gz"
    with pytest.raises(KeyboardInterrupt), files.writing(str(path)) as file:
        for _ in range(100):
            file.write(b"x" * 100_000)

    assert checks >= 3
    assert list(tmp_path.iterdir()) == []
