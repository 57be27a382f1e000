"""Charts as numbers: stacked series, gaps, and their axes."""

import itertools

from rsmq.web.pages.charts import HEIGHT, WIDTH, make_chart, nice_ticks

_TIMES = ["10:00", "10:01", "10:02", "10:03", "10:04"]


def test_a_stacked_series_is_drawn_on_top_of_the_one_before_and_listed_as_it_is():
    chart = make_chart("", [("a", [1, 1, 1, 1, 1]), ("b", [3] * 5)], _TIMES, is_stacked=True)
    first, second = chart.lines
    assert [each.text for each in chart.y_ticks] == ["4", "3", "2", "1", "0"]
    tops = {each.text: each.at for each in chart.y_ticks}
    assert first.paths[0].startswith(f"M0 {tops['1']:g}L")
    assert second.paths[0].startswith(f"M0 {tops['4']:g}L")
    assert f"L{WIDTH} {tops['4']:g}L{WIDTH} {tops['1']:g}L" in second.areas[0]
    assert second.values == [3] * 5


def test_a_step_without_a_value_is_a_gap_in_a_line_and_in_what_is_on_top_of_it():
    chart = make_chart("", [("a", [1, None, 1, 1, 1]), ("b", [1] * 5)], _TIMES, is_stacked=True)
    assert [len(each.paths) for each in chart.lines] == [2, 2]
    plain = make_chart("", [("a", [1, None, 1, 1, 1]), ("b", [1] * 5)], _TIMES)
    assert [len(each.paths) for each in plain.lines] == [2, 1]
    assert [each.areas for each in plain.lines] == [(), ()]


def test_a_single_step_between_two_gaps_is_a_visible_mark():
    chart = make_chart("", [("a", [1, None, 1, None, None])], _TIMES)
    (line,) = chart.lines
    assert line.paths == ("M0 2L4 2", f"M{WIDTH / 2 - 2:g} 2L{WIDTH / 2 + 2:g} 2")


def test_a_line_of_sums_ends_before_a_step_that_is_not_over_and_the_table_has_it():
    chart = make_chart("", [("a", [8, 8, 8, 8, 1])], _TIMES, has_open_end=True)
    (line,) = chart.lines
    assert f"L{WIDTH} " not in line.paths[0]
    assert line.paths[0].count("L") == 3
    assert line.values == [8, 8, 8, 8, 1]
    assert (chart.times[-1], chart.x_texts[-1]) == ("10:04, so far", "10:04")
    assert make_chart("", [("a", [])], [], has_open_end=True).times == []


def test_axes_have_texts_at_equal_distances():
    chart = make_chart("", [("a", [0, 7, 0, 0, 0])], _TIMES)
    assert chart.x_texts == tuple(_TIMES)
    places = [each.at for each in chart.y_ticks]
    assert (places[0], places[-1]) == (2, HEIGHT - 2)
    assert len({round(b - a) for a, b in itertools.pairwise(places)}) == 1
    assert nice_ticks(0) == [0, 1]
    assert make_chart("", [("a", [])], []).x_texts == ()
