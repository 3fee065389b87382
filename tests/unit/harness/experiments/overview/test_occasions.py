"""Occasions: in how many runs each claim was judged, and which claims hardly ever were."""

from maxq.harness.experiments.overview.occasions import QUOTA, Occasions


def counted(*runs: dict[str, str]) -> Occasions:
    occasions = Occasions()
    for claims in runs:
        occasions.add(claims)
    return occasions


def test_a_run_judges_a_claim_that_it_keeps_or_breaks() -> None:
    statuses = ("kept", "broken", "not promised", "no occasion", "not judged")
    occasions = counted(*({"S6": status, "S9": "kept"} for status in statuses))
    assert occasions.judged() == {"S6": 2, "S9": 5}
    assert occasions.runs == 5


def test_a_claim_is_under_the_quota_if_fewer_runs_than_one_of_so_many_judged_it() -> None:
    runs = [{"S6": "kept", "L8": "no occasion", "N4": "kept" if n < 2 else "not judged"}
            for n in range(2 * QUOTA)]  # fmt: skip
    assert counted(*runs).under_quota() == {"L8": 0}
    assert counted(*runs, *runs[2:3]).under_quota() == {"L8": 0, "N4": 2}


def test_runs_without_a_verdict_and_claims_that_nobody_named_do_not_count() -> None:
    occasions = counted({}, {"S6": "kept"})
    assert (occasions.runs, occasions.judged(), occasions.under_quota()) == (1, {"S6": 1}, {})
    assert list(counted({}).lines()) == []


def test_the_table_names_claims_in_words_and_says_what_is_seldom_judged() -> None:
    runs = [{"S6": "kept", "L8": "no occasion", "x-own": "not judged"}] * 3
    head, *rows, seldom = counted(*runs).lines()
    assert head.split() == [
        "judged", "kept", "broken", "not", "promised", "not", "covered", "not", "judged",
        "claim,", "by", "runs",
    ]  # fmt: skip
    assert [row.split(maxsplit=6) for row in rows] == [
        ["3", "3", "0", "0", "0", "0", "no acknowledged message lost (S6)"],
        ["0", "0", "0", "0", "3", "0", "a lock that ran out is granted (L8)"],
        ["0", "0", "0", "0", "0", "3", "x-own"],
    ]
    assert seldom.startswith("seldom put to the test, in fewer than one of 5 of 3 runs")
    assert seldom.endswith("a lock that ran out is granted (L8): 0; x-own: 0")
    assert len(list(counted({"S6": "kept"}).lines())) == 2, "nothing is seldom judged"


def test_as_plain_values() -> None:
    told = counted({"S6": "kept", "L8": "no occasion"}, {"S6": "broken"}).to_json()
    [l8, s6] = sorted(told.pop("claims"), key=lambda row: str(row["claim"]))
    assert told == {"runs": 2, "quota": "1 of 5", "under_quota": ["L8"]}
    assert (s6["judged"], s6["kept"], s6["broken"]) == (2, 1, 1)
    assert (l8["judged"], l8["no occasion"]) == (0, 1)
