"""What DuckDB and Polars can say of an events table: messages and locks, as counts by anomaly.

Each takes a table's path and returns how often it finds what our checkers call by that name. They
read the texts that our writer gives, and nothing else: no escape, no float, no payload of others.
What neither says: whether an excuse applies, who is to blame, the story, well-formedness.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Counts = dict[str, int]

SENT = r'"send",(\d+),(?:\[(\d+),)?(\d+)'
READ = r'(\d+),(\d+|"[^"]*")'  # a corrupt payload is a string
OF_QUEUE = r'\[(\d+),\[((?:\[\d+,(?:\d+|"[^"]*")\],?)+)\]\]'

MESSAGES = rf"""
CREATE TEMP TABLE rows AS
  SELECT index AS nr, process, CASE type WHEN 'invoke' THEN 'info' ELSE type END AS type, f, value
  FROM read_parquet($path)
  WHERE process IS NOT NULL AND f IN ('send', 'poll', 'txn', 'assign')
    AND (type <> 'invoke' OR pair < 0);
CREATE TEMP TABLE sent AS
  SELECT nr, process, type, k::BIGINT AS k, NULLIF(o, '')::BIGINT AS o, v::BIGINT AS v, n FROM (
    SELECT nr, process, type,
      unnest(regexp_extract_all(value, '{SENT}', 1)) AS k,
      unnest(regexp_extract_all(value, '{SENT}', 2)) AS o,
      unnest(regexp_extract_all(value, '{SENT}', 3)) AS v,
      generate_subscripts(regexp_extract_all(value, '{SENT}', 1), 1) AS n
    FROM rows WHERE f IN ('send', 'txn'));
CREATE TEMP TABLE polled AS
  WITH queues AS (
    SELECT nr, process, type,
      unnest(regexp_extract_all(value, '{OF_QUEUE}', 1))::BIGINT AS k,
      unnest(regexp_extract_all(value, '{OF_QUEUE}', 2)) AS messages
    FROM rows WHERE f IN ('poll', 'txn'))
  SELECT nr, process, type, k, o::BIGINT AS o, n,
    coalesce(TRY_CAST(v AS BIGINT), -1 - (hash(v) >> 2)::BIGINT) AS v
  FROM (SELECT nr, process, type, k,
    unnest(regexp_extract_all(messages, '{READ}', 1)) AS o,
    unnest(regexp_extract_all(messages, '{READ}', 2)) AS v,
    generate_subscripts(regexp_extract_all(messages, '{READ}', 1), 1) AS n
    FROM queues);
CREATE TEMP TABLE placed AS
  SELECT k, o, v FROM polled WHERE type = 'ok' UNION
  SELECT k, o, v FROM sent WHERE type = 'ok' AND o IS NOT NULL;
CREATE TEMP TABLE place AS SELECT k, v, min(o) AS place FROM placed GROUP BY k, v;
"""
LOST = """
SELECT count(*) FROM sent s ANTI JOIN (SELECT k, v FROM polled WHERE type = 'ok') p USING (k, v)
JOIN (SELECT k, max(o) AS furthest FROM polled WHERE type = 'ok' GROUP BY k) USING (k)
WHERE s.type = 'ok' AND s.o < furthest
"""
PHANTOM = """
SELECT count(DISTINCT (k, v)) FROM polled ANTI JOIN sent USING (k, v)
"""
CHANGED = """
SELECT count(*) FROM (SELECT k, o FROM placed GROUP BY k, o HAVING count(DISTINCT v) > 1)
"""
DUPLICATE = """
SELECT count(*) FROM (SELECT k, v FROM placed GROUP BY k, v HAVING count(DISTINCT o) > 1)
"""
READ_BACK = """
WITH seeks AS (SELECT process, nr FROM rows WHERE f = 'assign' AND type = 'ok'),
steps AS (
  SELECT nr, place, lag(place) OVER same AS before, lag(nr) OVER same AS since, process
  FROM polled JOIN place USING (k, v) WHERE type = 'ok'
  WINDOW same AS (PARTITION BY process, k ORDER BY nr, n))
SELECT count(*) FROM steps s WHERE place <= before
  AND NOT EXISTS (FROM seeks WHERE seeks.process = s.process AND seeks.nr BETWEEN s.since AND s.nr)
"""
SENT_BACK = """
WITH steps AS (
  SELECT place, lag(place) OVER (PARTITION BY process, k ORDER BY nr, n) AS before
  FROM sent LEFT JOIN place USING (k, v) WHERE type <> 'fail')
SELECT count(*) FROM steps WHERE place <= before
"""
MESSAGE_QUERIES = {
    "lost-write": LOST, "phantom": PHANTOM, "inconsistent-offsets": CHANGED,
    "duplicate": DUPLICATE, "read back": READ_BACK, "sent back": SENT_BACK,
}  # fmt: skip

LOCKS = """
CREATE TEMP TABLE grants AS
  WITH asked AS (
    SELECT index AS nr, process, time, type, f, value::BIGINT AS k,
      lag(time) OVER (PARTITION BY process ORDER BY index) AS begun
    FROM read_parquet($path)
    WHERE process IS NOT NULL AND f IN ('acquire', 'renew', 'release')),
  followed AS (
    SELECT *,
      min(CASE WHEN f = 'release' AND type = 'invoke' THEN time END) OVER later AS released,
      min(CASE WHEN f <> 'release' AND type = 'fail' THEN time END) OVER later AS lost
    FROM asked
    WINDOW later AS (PARTITION BY k, process ORDER BY nr
                     ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING))
  SELECT nr, process, time, k, begun + $apart AS apart_end, begun + $client AS hold_end,
    coalesce(released, 1::BIGINT << 62) AS released, coalesce(lost, 1::BIGINT << 62) AS lost
  FROM followed WHERE f <> 'release' AND type = 'ok' AND begun IS NOT NULL;
"""
_OVERLAP = """
WITH holds AS (SELECT nr, process, time, k, {end} AS until FROM grants),
followed AS (
  SELECT process, time, max(until) OVER before AS longest, arg_max(process, until) OVER before AS of
  FROM holds {where}
  WINDOW before AS (PARTITION BY k ORDER BY time, nr
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
SELECT count(*) FROM followed WHERE of <> process AND longest > time
"""
TOO_SOON = _OVERLAP.format(end="least(apart_end, released)", where="")
OVERLAP = _OVERLAP.format(end="least(hold_end, released, lost)", where="WHERE until > time")
LOCK_QUERIES = {"granted-too-soon": TOO_SOON, "lease-overlap": OVERLAP}


def duckdb_counts(path: Path, what: str, leases: Mapping[str, int]) -> Counts:
    """What DuckDB says, on one core; `what` is `messages` or `locks`."""
    import duckdb

    setup, queries = (MESSAGES, MESSAGE_QUERIES) if what == "messages" else (LOCKS, LOCK_QUERIES)
    with duckdb.connect(config={"threads": 1}) as engine:
        given: dict[str, Any] = {"path": str(path), **leases}
        for statement in filter(str.strip, setup.split(";\n")):
            engine.execute(statement, {k: v for k, v in given.items() if f"${k}" in statement})
        found = {}
        for name, query in queries.items():
            row = engine.execute(query).fetchone()
            found[name] = int(row[0]) if row else 0
        return found


def polars_counts(path: Path, what: str, leases: Mapping[str, int]) -> Counts:
    """What Polars says, on as many cores as it was started for."""
    return messages_of_polars(path) if what == "messages" else locks_of_polars(path, leases)


def tables_of_polars(path: Path) -> tuple[Any, Any, Any]:
    """The operations on messages, what was sent, and what was polled."""
    import polars as pl

    col = pl.col
    rows = (
        pl.scan_parquet(path)
        .filter(col("process").is_not_null(), col("f").is_in(["send", "poll", "txn", "assign"]),
                (col("type") != "invoke") | (col("pair") < 0))
        .select(col("index").alias("at"), "process", "f", "value",
                col("type").replace("invoke", "info"))
        .collect()
    )  # fmt: skip
    texts = rows.lazy()
    sent = (
        texts.filter(col("f").is_in(["send", "txn"]))
        .with_columns(col("value").str.extract_all(SENT))
        .explode("value").drop_nulls("value").with_row_index("n")
        .with_columns(*(col("value").str.extract(SENT, group).cast(pl.Int64).alias(name)
                        for group, name in enumerate("kov", 1)))
        .collect().lazy()
    )  # fmt: skip
    polled = (
        texts.filter(col("f").is_in(["poll", "txn"]))
        .with_columns(col("value").str.extract_all(OF_QUEUE))
        .explode("value").drop_nulls("value")
        .with_columns(col("value").str.extract(r"(\d+)").cast(pl.Int64).alias("k"),
                      col("value").str.extract_all(rf"\[{READ}\]"))
        .explode("value").with_row_index("n")
        .with_columns(col("value").str.extract(READ, 1).cast(pl.Int64).alias("o"),
                      col("value").str.extract(READ, 2).alias("v"))
        .with_columns(col("v").cast(pl.Int64, strict=False).fill_null(
            -1 - (col("v").hash() / 4).cast(pl.Int64)))
        .collect().lazy()
    )  # fmt: skip
    return rows, sent, polled


def messages_of_polars(path: Path) -> Counts:
    """What Polars says of messages."""
    import polars as pl

    col = pl.col
    rows, sent, polled = tables_of_polars(path)
    ok = col("type") == "ok"
    seen, acked = polled.filter(ok), sent.filter(ok)
    placed = pl.concat([seen.select("k", "o", "v"),
                        acked.drop_nulls("o").select("k", "o", "v")]).unique()  # fmt: skip
    place = placed.group_by("k", "v").agg(col("o").min().alias("place"))
    furthest = seen.group_by("k").agg(col("o").max().alias("furthest"))
    seeks = rows.filter(ok, col("f") == "assign").select("process", "at").sort("at").lazy()

    def steps(messages: pl.LazyFrame, how: Any) -> pl.LazyFrame:
        same = ["process", "k"]
        return messages.join(place, on=["k", "v"], how=how).sort("at", "n").with_columns(
            before=col("place").shift().over(same), since=col("at").shift().over(same)
        ).filter(col("place") <= col("before"))  # fmt: skip

    back = steps(seen, "inner").sort("at").join_asof(
        seeks.with_columns(sought=col("at")), on="at", by="process", check_sortedness=False
    ).filter(col("sought").is_null() | (col("sought") < col("since")))  # fmt: skip
    asked = {
        "lost-write": acked.join(seen, on=["k", "v"], how="anti").join(furthest, on="k")
                      .filter(col("o") < col("furthest")),
        "phantom": polled.select("k", "v").unique().join(sent, on=["k", "v"], how="anti"),
        "inconsistent-offsets": placed.group_by("k", "o").agg(n=col("v").n_unique())
                                .filter(col("n") > 1),
        "duplicate": placed.group_by("k", "v").agg(n=col("o").n_unique()).filter(col("n") > 1),
        "read back": back,
        "sent back": steps(sent.filter(col("type") != "fail"), "left"),
    }  # fmt: skip
    found = pl.collect_all([frame.select(pl.len())
                            for frame in asked.values()])  # fmt: skip
    return {name: int(frame.item()) for name, frame in zip(asked, found, strict=True)}


def locks_of_polars(path: Path, leases: Mapping[str, int]) -> Counts:
    """What Polars says of locks."""
    import polars as pl

    col, own = pl.col, ["k", "process"]
    never, asks = 1 << 62, col("f") != "release"
    gives_back = (col("f") == "release") & (col("type") == "invoke")

    def following(such: pl.Expr) -> pl.Expr:
        """When a process did such a thing next."""
        when = pl.when(such).then(col("time")).shift(-1)
        return when.fill_null(strategy="backward").over(own).fill_null(never)

    grants = (
        pl.scan_parquet(path)
        .filter(col("process").is_not_null(), col("f").is_in(["acquire", "renew", "release"]))
        .select(col("index").alias("at"), "process", "time", "type", "f",
                col("value").cast(pl.Int64).alias("k"))
        .sort("at")
        .with_columns(begun=col("time").shift().over("process"), released=following(gives_back),
                      lost=following(asks & (col("type") == "fail")))
        .filter(asks, col("type") == "ok", col("begun").is_not_null())
        .collect()
    )  # fmt: skip
    soon = pl.min_horizontal(col("begun") + leases["apart"], "released")
    hold = pl.min_horizontal(col("begun") + leases["client"], "released", "lost")
    found = {}
    for name, until in (("granted-too-soon", soon), ("lease-overlap", hold)):
        holds = grants.lazy().select("at", "process", "time", "k", until=until)
        if name == "lease-overlap":
            holds = holds.filter(col("until") > col("time"))
        longest = col("until").cum_max()
        longer = pl.when(col("until") == longest, longest > longest.shift().fill_null(-1))
        before = holds.sort("time", "at").with_columns(
            longest=longest.shift().over("k"),
            of=longer.then(col("process")).forward_fill().shift().over("k"),
        )
        such = before.filter(col("of") != col("process"), col("longest") > col("time"))
        found[name] = int(such.select(pl.len()).collect().item())
    return found
