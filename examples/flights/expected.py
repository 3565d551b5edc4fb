#!/usr/bin/env python3
"""Computes with DuckDB, without Onceward, what flights.yaml must produce from data/*.csv.zst.

    pip install -r requirements.txt
    python expected.py            # writes expected.json and expected-windows.csv.zst
    python expected.py --check    # computes again and compares with the files that are kept

Everything is an exact integer: a mean is left to its sum and its count, so that no rounding is
built into the expectation. Both files are kept, so tests need neither Python nor DuckDB.
"""

import argparse
import json
import sys
from pathlib import Path

import duckdb
import zstandard

FOLDER = Path(__file__).resolve().parent
TOTALS = FOLDER / "expected.json"
WINDOWS = FOLDER / "expected-windows.csv.zst"
LEVEL = 19

# Read as text and cast by name: nothing rests on guessed types, and a text that is not an integer
# or not a UTC timestamp of this form is an error, not a missing value.
READ = """
CREATE TABLE flights AS
SELECT carrier,
       CAST(arr_delay AS BIGINT) AS arr_delay,
       strptime(time_hour, '%Y-%m-%dT%H:%M:%SZ') AS event_time
FROM read_csv(?, header = true, all_varchar = true, nullstr = 'NA', compression = 'zstd')
"""

# A one-hour tumbling window starts at the full hour, counted from 1970-01-01T00:00:00Z.
AGGREGATE = """
CREATE TABLE windows AS
SELECT carrier,
       date_trunc('hour', event_time) AS window_start,
       count(*) AS flights,
       CAST(sum(arr_delay) AS BIGINT) AS sum_delay,
       max(arr_delay) AS worst
FROM flights
WHERE arr_delay IS NOT NULL
GROUP BY ALL
"""

ROWS = """
SELECT carrier, strftime(window_start, '%Y-%m-%dT%H:%M:%SZ'), flights, sum_delay, worst
FROM windows ORDER BY carrier, window_start
"""

CARRIERS = """
SELECT carrier, count(*), CAST(sum(flights) AS BIGINT), CAST(sum(sum_delay) AS BIGINT), max(worst)
FROM windows GROUP BY carrier ORDER BY carrier
"""


def compute() -> tuple[str, str]:
    """The texts of expected.json and of the windows' CSV."""
    database = duckdb.connect()
    database.execute(READ, [str(FOLDER / "data" / "flights-*.csv.zst")])
    database.execute(AGGREGATE)

    def number(query: str) -> int:
        return int(database.execute(query).fetchone()[0])

    totals = {
        "input_rows": number("SELECT count(*) FROM flights"),
        "rows_after_filter": number("SELECT count(arr_delay) FROM flights"),
        "output_rows": number("SELECT count(*) FROM windows"),
        "flights": number("SELECT sum(flights) FROM windows"),
        "carriers": {
            carrier: {"windows": windows, "flights": flights, "sum_delay": sum_delay, "worst": worst}
            for carrier, windows, flights, sum_delay, worst in database.execute(CARRIERS).fetchall()
        },
    }
    lines = ["carrier,window_start,flights,sum_delay,worst"]
    lines += [",".join(map(str, row)) for row in database.execute(ROWS).fetchall()]
    return json.dumps(totals, indent=2) + "\n", "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Computes the flights example's expected output.")
    parser.add_argument("--check", action="store_true", help="compare with the kept files, write nothing")
    arguments = parser.parse_args()

    totals, windows = compute()
    if arguments.check:
        kept = zstandard.ZstdDecompressor().stream_reader(WINDOWS.read_bytes()).read().decode()
        for name, differs in [(TOTALS.name, TOTALS.read_text() != totals), (WINDOWS.name, kept != windows)]:
            if differs:
                sys.exit(f"{name}: differs from what data/ gives; run prepare.py --check, then expected.py")
    else:
        TOTALS.write_text(totals)
        WINDOWS.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(windows.encode()))
    print(totals, end="")


if __name__ == "__main__":
    main()
