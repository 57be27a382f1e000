"""The end of a chunk of a history, from which the rates of many queues follow."""

from rsmq.history.records import last_minute_of

_USUAL = bytes([4, 1, 7, 6, 3, 2, 1, 9])
#: A number above 127 has two bytes.
_LARGE = bytes([4, 1, 0b1010_1100, 2, 6, 3, 2, 1, 9])
_MINUTE = 29_000_000 // 60 * 60 + 5


def test_the_last_minute_is_read_from_the_end_of_its_chunk():
    assert last_minute_of(_USUAL, _MINUTE) == (7, 6)
    assert last_minute_of(_USUAL * 9, _MINUTE) == (7, 6)
    assert last_minute_of(b"\x81\x05" + _LARGE, _MINUTE) == (300, 6)


def test_in_a_repeated_minute_nothing_was_sent():
    assert last_minute_of(_USUAL + bytes([5, 0]), _MINUTE + 1) == (0, 0)


def test_a_minute_that_was_not_recorded_by_itself_is_not_known():
    assert last_minute_of(bytes([4, 2, 7, 6, 3, 2, 1, 9]), _MINUTE) is None
    assert last_minute_of(_USUAL, _MINUTE + 1) is None
    assert last_minute_of(_USUAL[1:], _MINUTE) is None
    assert last_minute_of(b"", _MINUTE) is None
