//! What a commit costs beyond the device, what folding costs in the background, and what opening costs.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use onceward_protocol::chain::Head;
use onceward_protocol::{CommitOutcome, Mutants};
use onceward_store::contract::{generation, partition};
use onceward_store::disk::OsDisk;
use onceward_store::{EmbeddedCore, EmbeddedStore, EpochCommit, Options, Store, TableId, WriteBatch};

const EPOCH_BYTES: usize = 4 << 20;
const KEYS: u64 = 1_000_000;

fn writes(bytes: usize, seed: u64) -> WriteBatch {
    let mut batch = WriteBatch::reusing(Vec::with_capacity(bytes + 64));
    let mut at = seed;
    while batch.as_bytes().len() < bytes {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("user-{:08}", (at >> 33) % KEYS);
        batch.put(TableId::STATE, key.as_bytes(), &[7; 24]);
    }
    batch
}

/// A store on the file system, and a job that commits to it.
struct Committer {
    store: EmbeddedStore,
    epoch: u64,
    _dir: tempfile::TempDir,
}

impl Committer {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(".").unwrap();
        let store = EmbeddedStore::open(dir.path(), Options::default()).unwrap();
        store.handle().grant(&partition(0), generation(1));
        Committer { store, epoch: 0, _dir: dir }
    }
    fn commit(&mut self, bytes: usize) -> Duration {
        let writes = writes(bytes, self.epoch);
        let predecessor = (self.epoch > 0).then_some(Head { generation: generation(1), epoch: self.epoch });
        self.epoch += 1;
        let (partition, epoch) = (partition(0), self.epoch);
        let commit = EpochCommit { partition, generation: generation(1), epoch, predecessor, writes };
        let start = Instant::now();
        let outcome = self.store.handle().commit(commit);
        let took = start.elapsed();
        assert_eq!(outcome, CommitOutcome::Committed);
        took
    }
}

/// A file of zeros, written over and synced: what the device costs.
struct Bare {
    file: File,
    offset: u64,
    bytes: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Bare {
    fn new(bytes: usize) -> Self {
        let dir = tempfile::tempdir_in(".").unwrap();
        let mut file = File::create(dir.path().join("bare")).unwrap();
        file.write_all(&vec![0; 64 << 20]).unwrap();
        file.sync_all().unwrap();
        Bare { file, offset: 0, bytes: writes(bytes, 1).into_bytes(), _dir: dir }
    }
    fn write(&mut self) -> Duration {
        let start = Instant::now();
        self.file.write_all_at(&self.bytes, self.offset).unwrap();
        self.file.sync_data().unwrap();
        let took = start.elapsed();
        self.offset = (self.offset + (self.bytes.len() as u64).div_ceil(4096) * 4096) % (56 << 20);
        took
    }
}

fn commit(c: &mut Criterion) {
    for (name, bytes) in [("epoch of 4 MiB", EPOCH_BYTES), ("epoch of 20 rows", 800)] {
        let mut group = c.benchmark_group(name);
        group.sample_size(50).throughput(Throughput::Bytes(bytes as u64));
        let mut bare = Bare::new(bytes);
        group.bench_function("bare write and fdatasync", |b| {
            b.iter_custom(|rounds| (0..rounds).map(|_| bare.write()).sum());
        });
        let mut committer = Committer::new();
        group.bench_function("commit", |b| {
            b.iter_custom(|rounds| (0..rounds).map(|_| committer.commit(bytes)).sum());
        });
        group.finish();
        // Both in turn, so that whatever else the device does meets both; at the pace of an engine, not
        // at the pace at which snapshots fall behind.
        let (mut commits, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            std::thread::sleep(Duration::from_millis(25));
            commits.push(committer.commit(bytes));
            writes.push(bare.write());
        }
        for (what, mut times) in [("commit", commits), ("bare write and fdatasync", writes)] {
            times.sort_unstable();
            println!("{name}, in turn: {what}: p50 {:?} p99 {:?}", times[200], times[395]);
        }
        println!("{:?}", committer.store.handle().stats());
    }
}

/// 256 MiB of 40-byte entries over a million keys, folded by the maintenance job.
fn fold(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold");
    let epochs = 64;
    let entries: u64 = (0..epochs).map(|seed| writes(EPOCH_BYTES, seed).len() as u64).sum();
    group.sample_size(10).throughput(Throughput::Elements(entries));
    let options = Options { fold_min_bytes: 1, snapshot_min_bytes: u64::MAX, ..Options::default() };
    let p = partition(0);
    group.bench_function("256 MiB over 10^6 keys", |b| {
        b.iter_batched(
            || {
                let dir = tempfile::tempdir_in(".").unwrap();
                let mut core = EmbeddedCore::open(OsDisk, dir.path(), options, Mutants::NONE).unwrap();
                core.grant(&p, generation(1));
                for epoch in 1..=epochs {
                    let predecessor =
                        (epoch > 1).then_some(Head { generation: generation(1), epoch: epoch - 1 });
                    let writes = writes(EPOCH_BYTES, epoch);
                    let partition = p.clone();
                    core.commit(EpochCommit {
                        partition,
                        generation: generation(1),
                        epoch,
                        predecessor,
                        writes,
                    });
                }
                core.flush(&mut Vec::new()).unwrap();
                let mut jobs = Vec::new();
                while let Some(job) = core.maintenance() {
                    jobs.push(job);
                }
                (core, dir, jobs)
            },
            |(core, dir, jobs)| {
                let tables =
                    jobs.into_iter().filter(|job| job.kind() == onceward_store::MaintenanceKind::Tables);
                let done: Vec<_> = tables.map(|job| job.run(&OsDisk)).collect();
                (core, dir, black_box(done))
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// What a restart waits for: opening, from a snapshot of 256 MiB and from an idle store, and then loading
/// one of 64 partitions.
fn open(c: &mut Criterion) {
    let partitions = 64;
    let dir = tempfile::tempdir_in(".").unwrap();
    let idle = tempfile::tempdir_in(".").unwrap();
    let open = |dir: &Path| EmbeddedCore::open(OsDisk, dir, Options::default(), Mutants::NONE).unwrap();
    drop(open(idle.path()));
    let mut core = open(dir.path());
    for index in 0..partitions {
        let (partition, generation) = (partition(index), generation(1));
        core.grant(&partition, generation);
        let writes = writes(EPOCH_BYTES, u64::from(index));
        core.commit(EpochCommit { partition, generation, epoch: 1, predecessor: None, writes });
        core.flush(&mut Vec::new()).unwrap();
    }
    core.maintain().unwrap();
    assert!(core.snapshot_bytes() > 0);
    println!("a snapshot of {} bytes, a log of {} since", core.snapshot_bytes(), core.log_bytes());
    let mut group = c.benchmark_group("open");
    group.sample_size(10);
    group.bench_function("load one of 64 partitions", |b| {
        b.iter(|| {
            let mut bytes = 0;
            let mut visit = |key: &[u8], value: &[u8]| bytes += key.len() + value.len();
            core.scan(&partition(7), TableId::STATE, &mut visit).unwrap();
            bytes
        });
    });
    drop(core);
    group.bench_function("an idle store", |b| b.iter(|| open(idle.path()).sequence()));
    group.bench_function("a snapshot of 256 MiB", |b| b.iter(|| open(dir.path()).sequence()));
    group.finish();
}

criterion_group!(benches, commit, fold, open);
criterion_main!(benches);
