"""What `benchmarks.containers` says of figures."""

from benchmarks.containers import Beside, Side, rows, said

PERCENT = [1.0] * 98  # of 100 sends; two more decide the 99th percentile


def test_a_ratio_is_that_of_containers_to_brokers_alone() -> None:
    lines = list(rows("ours", Side(200.0, 2.0, 4000.0), Side(150.0, 3.0, 3000.0)))
    assert lines == [
        "| ours: memory (PSS), MiB | 200 | 150 | 0.75 |",
        "| ours: start until whole, s | 2.0 | 3.0 | 1.50 |",
        "| ours: sends a second | 4,000 | 3,000 | 0.75 |",
    ]


def test_a_flood_that_slows_a_neighbour_too_much_is_missed() -> None:
    quiet = [*PERCENT, 10.0, 10.0]
    calm = said(Beside(quiet, [*PERCENT, 30.0, 30.0], 2500.0))
    assert calm == ("p99 of sends: 10.0 ms beside a quiet neighbour, 30.0 ms beside one that takes "
                    "2,500 sends/s: 3.0 times")  # fmt: skip
    slow = said(Beside(quiet, [*PERCENT, 31.0, 31.0], 2500.0))
    assert slow.splitlines()[1:] == ["missed: at most 3 times"]
