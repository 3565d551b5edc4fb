//! Stores that earlier versions wrote are opened, and hold what they held. See `fixtures/README.md`.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Branch, CommitOutcome, Creation, Generation, Mutants, PartitionHead, PartitionId};
use onceward_store::disk::OsDisk;
use onceward_store::{
    EmbeddedCore, EpochCommit, FORMAT_VERSION, Operation, Options, Store, TableId, WriteBatch,
};

const EXPECTED: &str = "expected.txt";

fn version_dir(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("v{version}"))
}

fn open(dir: &Path, options: Options) -> EmbeddedCore<OsDisk> {
    EmbeddedCore::open(OsDisk, dir, options, Mutants::NONE).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Everything that a store holds, in a form that depends on no type's `Debug` or `Display`.
fn listing(store: &dyn Store) -> String {
    let mut out = String::new();
    let name = |generation: Generation| {
        let Generation { number, nonce, branch } = generation;
        format!("{number} {nonce:016x} {}", branch.0)
    };
    for partition in store.partitions().unwrap() {
        let PartitionHead { granted, last_number, head } = store.head(&partition).unwrap();
        writeln!(out, "partition {}", hex(&partition.encode())).unwrap();
        writeln!(out, "  last number {last_number}").unwrap();
        writeln!(out, "  granted {}", granted.map_or("to nobody".to_owned(), name)).unwrap();
        let committed = head.map(|head| format!("{} epoch {}", name(head.generation), head.epoch));
        writeln!(out, "  committed {}", committed.unwrap_or("nothing".to_owned())).unwrap();
        for table in 0..=u8::MAX {
            let mut row = |key: &[u8], value: &[u8]| {
                writeln!(out, "  row {table} {} = {}", key.escape_ascii(), value.escape_ascii()).unwrap();
            };
            store.scan(&partition, TableId(table), &mut row).unwrap();
        }
    }
    out
}

/// The same store, in a directory that may be changed.
fn copied(fixture: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

/// Opens every store of a version, compares it with what was written down, and goes on with it.
fn opens_stores_of(version: u32) {
    let mut names: Vec<_> =
        fs::read_dir(version_dir(version)).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty(), "there are no stores of version {version}");
    for fixture in names {
        let expected = fs::read_to_string(fixture.join(EXPECTED)).unwrap();
        let dir = copied(&fixture);
        let mut store = open(dir.path(), Options::small());
        assert_eq!(listing(&store), expected, "{}", fixture.display());

        let partition = store.partitions().unwrap().remove(0);
        let PartitionHead { last_number, head, .. } = store.head(&partition).unwrap();
        let mine = Generation { number: last_number + 1, nonce: 1, branch: Branch(1) };
        let mut writes = WriteBatch::default();
        writes.put(TableId::META, b"written by", b"a later version");
        let epoch = head.map_or(1, |head| head.epoch + 1);
        store.transact(vec![
            Operation::Grant(partition.clone(), mine),
            Operation::Commit(EpochCommit { partition, generation: mine, epoch, predecessor: head, writes }),
        ]);
        flush(&mut store);
        store.maintain().unwrap();
        let after = listing(&store);
        assert_ne!(after, expected);
        drop(store);
        assert_eq!(listing(&open(dir.path(), Options::small())), after, "{}", fixture.display());
    }
}

#[test]
fn opens_stores_of_version_1() {
    opens_stores_of(1);
}

#[test]
fn there_are_stores_of_the_version_that_is_written_today() {
    assert!(version_dir(FORMAT_VERSION).is_dir(), "write them: see tests/fixtures/README.md");
}

fn flush(store: &mut EmbeddedCore<OsDisk>) {
    let mut outcomes = Vec::new();
    store.flush(&mut outcomes).unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.outcome == CommitOutcome::Committed), "{outcomes:?}");
}

/// Partitions of every kind.
fn partitions() -> Vec<PartitionId> {
    let creation = Creation(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    let range = |layout, index| PartitionKind::Range { computation: "count words".to_owned(), layout, index };
    let source = PartitionKind::Source {
        source: "orders".to_owned(),
        creation: Creation(42),
        name: "in/2026-11-30 größe.jsonl".to_owned(),
    };
    [PartitionKind::Pipeline, source, range(1, 0), range(2, 0), range(2, 1), range(2, 70_000)]
        .map(|kind| PartitionId::new(creation, kind))
        .to_vec()
}

fn generation(number: u64) -> Generation {
    Generation { number, nonce: number.wrapping_mul(0xd6e8_feb8_6659_fd93), branch: Branch(number / 3) }
}

/// Writes the rows of one fixture.
struct Writer {
    store: EmbeddedCore<OsDisk>,
    round: u64,
}

impl Writer {
    /// The next epoch of whoever owns the partition.
    fn next(&self, partition: &PartitionId, writes: WriteBatch) -> Option<EpochCommit> {
        let PartitionHead { granted, head, .. } = self.store.head(partition).unwrap();
        let epoch = head.map_or(1, |head| head.epoch + 1 + self.round % 2);
        Some(EpochCommit {
            partition: partition.clone(),
            generation: granted?,
            epoch,
            predecessor: head,
            writes,
        })
    }
    /// Puts, overwrites and deletes in several tables; empty keys and values, binary ones, and a long one.
    fn writes(&self) -> WriteBatch {
        let mut batch = WriteBatch::default();
        let round = self.round;
        batch.put(TableId::META, b"", &round.to_be_bytes());
        batch.put(TableId::STATE, format!("key {:03}", round % 40).as_bytes(), format!("{round}").as_bytes());
        batch.put(TableId::STATE, format!("key {:03}", round % 7).as_bytes(), b"");
        batch.delete(TableId::STATE, format!("key {:03}", (round * 5) % 40).as_bytes());
        batch.put(TableId::OUTBOX, &round.to_be_bytes(), &vec![b'o'; 40 + (round % 300) as usize]);
        if round > 3 {
            batch.delete(TableId::OUTBOX, &(round - 3).to_be_bytes());
        }
        if round.is_multiple_of(9) {
            batch.put(TableId::TIMERS, &[0xff, 0, round as u8], &[0, 0xff, b'\n']);
            batch.put(TableId(200), b"long", &vec![b'a' + (round % 26) as u8; 1500]);
        }
        batch
    }
    fn rounds(&mut self, count: u64) {
        for _ in 0..count {
            self.round += 1;
            let all = partitions();
            let all = all.iter().cycle().skip(self.round as usize % all.len()).take(all.len());
            let owned: Vec<_> = all.filter_map(|partition| self.next(partition, self.writes())).collect();
            // Every fifth group is that of an idle pipeline.
            let idle = self.round.is_multiple_of(5);
            for commit in owned.into_iter().take(2) {
                let writes = if idle { WriteBatch::default() } else { commit.writes };
                self.store.commit(EpochCommit { writes, ..commit });
            }
            flush(&mut self.store);
            self.store.maintain().unwrap();
        }
    }
    /// A range is retired for two new ones, one of which gets a first commit; a third is granted and revoked.
    fn split(&mut self) {
        let all = partitions();
        let first = EpochCommit {
            partition: all[3].clone(),
            generation: generation(7),
            epoch: 1,
            predecessor: None,
            writes: self.writes(),
        };
        self.store.transact(vec![
            Operation::Require(all[0].clone(), generation(4)),
            Operation::Commit(self.next(&all[2], self.writes()).unwrap()),
            Operation::Revoke(all[2].clone()),
            Operation::Grant(all[3].clone(), generation(7)),
            Operation::Commit(first),
            Operation::Grant(all[4].clone(), generation(1)),
            Operation::Grant(all[5].clone(), generation(9)),
            Operation::Revoke(all[5].clone()),
        ]);
        flush(&mut self.store);
    }
}

fn begin(dir: &Path, options: Options) -> Writer {
    let mut store = open(dir, options);
    for (partition, number) in partitions()[..3].iter().zip([4, 2, 3]) {
        store.grant(partition, generation(number - 1));
        store.grant(partition, generation(number));
    }
    flush(&mut store);
    Writer { store, round: 0 }
}

/// Keeps a store's files and what is in it.
fn keep(name: &str, dir: &Path, expected: &str) {
    let fixture = version_dir(FORMAT_VERSION).join(name);
    fs::create_dir(&fixture).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "LOCK" {
            fs::copy(entry.path(), fixture.join(entry.file_name())).unwrap();
        }
    }
    fs::write(fixture.join(EXPECTED), expected).unwrap();
}

const SMALL: Options = Options { first_segment_bytes: 32 << 10, segment_bytes: 32 << 10, ..Options::small() };
const NO_SNAPSHOTS: Options = Options { snapshot_min_bytes: u64::MAX, ..SMALL };

/// A snapshot, and a log of several segments after it that goes on with the partitions in it and new ones.
fn write_snapshot_and_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = begin(dir.path(), SMALL);
    writer.rounds(60);
    assert!(writer.store.snapshot_bytes() > 0);
    let Writer { store, round } = writer;
    drop(store);
    let mut writer = Writer { store: open(dir.path(), NO_SNAPSHOTS), round };
    writer.rounds(6);
    writer.split();
    writer.rounds(12);
    keep("snapshot-and-log", dir.path(), &listing(&writer.store));
}

/// One segment and no snapshot; its last frame is torn, as by a power loss in the flush.
fn write_torn_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = begin(dir.path(), NO_SNAPSHOTS);
    writer.rounds(3);
    let expected = listing(&writer.store);
    let segment = dir.path().join(format!("log-{:020}", 1));
    let before = fs::read(&segment).unwrap();
    writer.rounds(1);
    let mut torn = fs::read(&segment).unwrap();
    let (start, end) = {
        let differs = |at: &usize| before[*at] != torn[*at];
        ((0..torn.len()).find(differs).unwrap(), (0..torn.len()).rfind(differs).unwrap())
    };
    torn[(start + end) / 2..].fill(0);
    fs::write(&segment, torn).unwrap();
    keep("torn-log", dir.path(), &expected);
}

#[test]
#[ignore = "writes the fixtures of a new format; see tests/fixtures/README.md"]
fn write_fixtures_of_this_version() {
    let dir = version_dir(FORMAT_VERSION);
    assert!(!dir.exists(), "{} is there already, and stays as it is", dir.display());
    fs::create_dir_all(&dir).unwrap();
    write_snapshot_and_log();
    write_torn_log();
}
