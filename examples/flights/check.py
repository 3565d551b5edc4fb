#!/usr/bin/env python3
"""Compares what a finished run wrote with expected-windows.csv.zst, window by window.

    pip install -r requirements.txt
    python check.py               # reads out/hourly
    python check.py FOLDER        # reads FOLDER/*.jsonl

Exits 0 only if every expected window is there once, with its exact numbers, and nothing else is.
"""

import csv
import io
import json
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import zstandard

FOLDER = Path(__file__).resolve().parent
# A mean such as 1/3 has no exact decimal text, so a rounded one may be off by this much.
MEAN_TOLERANCE = Decimal("1e-9")
SHOWN_PROBLEMS = 20


def read_expected() -> dict[tuple[str, datetime], tuple[int, int, int]]:
    """(carrier, window start) to (flights, sum of delays, worst delay)."""
    content = zstandard.ZstdDecompressor().stream_reader((FOLDER / "expected-windows.csv.zst").read_bytes()).read()
    return {
        (row["carrier"], datetime.fromisoformat(row["window_start"])): (
            int(row["flights"]),
            int(row["sum_delay"]),
            int(row["worst"]),
        )
        for row in csv.DictReader(io.StringIO(content.decode()))
    }


def problem_of(row: dict, flights: int, sum_delay: int, worst: int) -> str | None:
    """What is wrong with an output row of an expected window."""
    if datetime.fromisoformat(row["window_end"]) - datetime.fromisoformat(row["window_start"]) != timedelta(hours=1):
        return "is not one hour long"
    if (row["flights"], row["worst"]) != (flights, worst):
        return f"has flights {row['flights']} and worst {row['worst']}, expected {flights} and {worst}"
    if abs(Decimal(row["mean_delay"]) * flights - sum_delay) > MEAN_TOLERANCE * flights:
        return f"has mean_delay {row['mean_delay']}, expected {sum_delay} / {flights}"
    return None


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "out" / "hourly"
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        sys.exit(f"{folder}: no *.jsonl files, expected the output of flights.yaml; run it first")

    expected = read_expected()
    seen: set[tuple[str, datetime]] = set()
    problems = []
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            row = json.loads(line, parse_float=Decimal)
            window = (row["carrier"], datetime.fromisoformat(row["window_start"]))
            name = f"{path.name}:{number}: window {window[0]} {row['window_start']}"
            if window in seen:
                problems.append(f"{name} was already written")
            elif window not in expected:
                problems.append(f"{name} is not expected")
            elif problem := problem_of(row, *expected[window]):
                problems.append(f"{name} {problem}")
            seen.add(window)
    missing = sorted(expected.keys() - seen)
    problems += [f"missing: window {carrier} {start.isoformat()}" for carrier, start in missing]

    if problems:
        print("\n".join(problems[:SHOWN_PROBLEMS]))
        sys.exit(f"{len(problems)} problems in {len(files)} files of {folder}")
    print(f"{len(seen)} windows in {len(files)} files: all as expected, none twice, none missing")


if __name__ == "__main__":
    main()
