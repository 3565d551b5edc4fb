//! The contract suite on every form of the embedded store.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use onceward_protocol::{CommitOutcome, Generation, Mutant, Mutants, PartitionHead, PartitionId};
use onceward_store::contract::{Subject, suite};
use onceward_store::disk::{Fault, FaultDisk, OsDisk, site};
use onceward_store::{
    EmbeddedCore, EmbeddedStore, EpochCommit, Operation, Options, Outcome, Store, StoreError, StoreHandle,
    TableId, Ticket,
};

const DIR: &str = "/store";

/// The core; all maintenance happens right after each flush.
struct Maintained<D: onceward_store::disk::Disk>(EmbeddedCore<D>);

impl<D: onceward_store::disk::Disk> Store for Maintained<D> {
    fn grant(&mut self, partition: &PartitionId, generation: Generation) -> Ticket {
        self.0.grant(partition, generation)
    }
    fn revoke(&mut self, partition: &PartitionId) -> Ticket {
        self.0.revoke(partition)
    }
    fn commit(&mut self, commit: EpochCommit) -> Ticket {
        self.0.commit(commit)
    }
    fn transact(&mut self, operations: Vec<Operation>) -> Ticket {
        self.0.transact(operations)
    }
    fn flush(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        self.0.flush(outcomes)?;
        self.0.maintain()
    }
    fn head(&self, partition: &PartitionId) -> Result<PartitionHead, StoreError> {
        self.0.head(partition)
    }
    fn scan(
        &self,
        partition: &PartitionId,
        table: TableId,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        self.0.scan(partition, table, visit)
    }
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        self.0.partitions()
    }
}

/// Every size zero: a segment, fold or snapshot after nearly every flush.
const RESTLESS: Options =
    Options { first_segment_bytes: 4096, segment_bytes: 4096, fold_min_bytes: 0, snapshot_min_bytes: 0 };

struct OnOs(tempfile::TempDir, Options);

impl Subject for OnOs {
    fn open(&mut self) -> Result<Box<dyn Store>, StoreError> {
        let core = EmbeddedCore::open(OsDisk, self.0.path(), self.1, Mutants::NONE)?;
        Ok(Box::new(Maintained(core)))
    }
}

#[test]
fn the_core_on_the_file_system() {
    for options in [Options::default(), Options::small(), RESTLESS] {
        suite(&mut || Box::new(OnOs(tempfile::tempdir().unwrap(), options))).unwrap();
    }
}

struct OnFaults {
    disk: FaultDisk,
    options: Options,
    break_with: Fault,
    at: &'static str,
    reboots: u64,
}

impl Subject for OnFaults {
    fn open(&mut self) -> Result<Box<dyn Store>, StoreError> {
        self.reboots += 1;
        self.disk = self.disk.reboot(self.reboots);
        let core = EmbeddedCore::open(self.disk.clone(), Path::new(DIR), self.options, Mutants::NONE)?;
        Ok(Box::new(Maintained(core)))
    }
    fn break_next_flush(&mut self) -> bool {
        self.disk.inject_at_site(self.at, 0, self.break_with);
        true
    }
}

#[test]
fn the_core_on_a_disk_that_loses_what_was_not_synced() {
    let faults = [
        (site::LOG_APPEND, Fault::ShortWrite),
        (site::LOG_APPEND, Fault::Full),
        (site::LOG_APPEND, Fault::Refused),
        (site::LOG_SYNC, Fault::FailedSync(1)),
        (site::LOG_SYNC, Fault::FailedSync(2)),
        (site::LOG_SYNC, Fault::FailedSync(5)),
    ];
    for options in [Options::small(), RESTLESS] {
        for (at, break_with) in faults {
            for reboots in 0..20 {
                suite(&mut || {
                    Box::new(OnFaults {
                        disk: FaultDisk::new(),
                        options,
                        break_with,
                        at,
                        reboots: reboots * 1000,
                    })
                })
                .unwrap();
            }
        }
    }
}

type Staged = Box<dyn FnOnce(&StoreHandle) -> Receiver<CommitOutcome> + Send>;

/// The threaded store behind the trait: submissions go to the log thread when they are flushed, so
/// that what is not flushed is not seen.
struct Threaded {
    store: EmbeddedStore,
    handle: StoreHandle,
    staged: Vec<Staged>,
    tickets: Vec<Ticket>,
    next: u64,
}

impl Threaded {
    fn stage(
        &mut self,
        submit: impl FnOnce(&StoreHandle, Box<dyn FnOnce(CommitOutcome) + Send>) + Send + 'static,
    ) -> Ticket {
        self.staged.push(Box::new(move |handle| {
            let (reply, outcome) = channel();
            submit(handle, Box::new(move |outcome| reply.send(outcome).unwrap()));
            outcome
        }));
        let ticket = Ticket(self.next);
        self.next += 1;
        self.tickets.push(ticket);
        ticket
    }
}

impl Store for Threaded {
    fn grant(&mut self, partition: &PartitionId, generation: Generation) -> Ticket {
        let partition = partition.clone();
        self.stage(move |handle, done| handle.submit_grant(&partition, generation, done))
    }
    fn revoke(&mut self, partition: &PartitionId) -> Ticket {
        let partition = partition.clone();
        self.stage(move |handle, done| handle.submit_revoke(&partition, done))
    }
    fn commit(&mut self, commit: EpochCommit) -> Ticket {
        self.stage(move |handle, done| handle.submit_commit(commit, done))
    }
    fn transact(&mut self, operations: Vec<Operation>) -> Ticket {
        self.stage(move |handle, done| handle.submit_transact(operations, done))
    }
    fn flush(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        let answers: Vec<_> = self.staged.drain(..).map(|submit| submit(&self.handle)).collect();
        for (answer, ticket) in answers.into_iter().zip(self.tickets.drain(..)) {
            outcomes.push(Outcome { ticket, outcome: answer.recv().unwrap() });
        }
        match self.store.handle().failure() {
            Some(reason) => Err(StoreError::Poisoned { reason }),
            None => Ok(()),
        }
    }
    fn head(&self, partition: &PartitionId) -> Result<PartitionHead, StoreError> {
        self.handle.head(partition)
    }
    fn scan(
        &self,
        partition: &PartitionId,
        table: TableId,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        self.handle.scan(partition, table)?.iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        self.handle.partitions()
    }
}

fn threaded(store: EmbeddedStore) -> Box<dyn Store> {
    let handle = store.handle();
    Box::new(Threaded { store, handle, staged: Vec::new(), tickets: Vec::new(), next: 0 })
}

struct ThreadedOnOs(tempfile::TempDir, Options);

impl Subject for ThreadedOnOs {
    fn open(&mut self) -> Result<Box<dyn Store>, StoreError> {
        EmbeddedStore::open(self.0.path(), self.1).map(threaded)
    }
}

struct ThreadedOnFaults(FaultDisk, PathBuf);

impl Subject for ThreadedOnFaults {
    fn open(&mut self) -> Result<Box<dyn Store>, StoreError> {
        self.0 = self.0.reboot(1);
        EmbeddedStore::open_on(self.0.clone(), &self.1, RESTLESS).map(threaded)
    }
    fn break_next_flush(&mut self) -> bool {
        self.0.inject_at_site(site::LOG_SYNC, 0, Fault::FailedSync(3));
        true
    }
}

#[test]
fn the_store_with_its_threads() {
    for options in [Options::default(), RESTLESS] {
        suite(&mut || Box::new(ThreadedOnOs(tempfile::tempdir().unwrap(), options))).unwrap();
    }
    suite(&mut || Box::new(ThreadedOnFaults(FaultDisk::new(), DIR.into()))).unwrap();
}

struct Unfenced(FaultDisk);

impl Subject for Unfenced {
    fn open(&mut self) -> Result<Box<dyn Store>, StoreError> {
        let mutants = Mutants::only(Mutant::ChainNotCompared);
        Ok(Box::new(EmbeddedCore::open(self.0.clone(), Path::new(DIR), Options::small(), mutants)?))
    }
}

#[test]
fn a_store_that_does_not_compare_fails_the_suite() {
    let violation = suite(&mut || Box::new(Unfenced(FaultDisk::new()))).unwrap_err();
    assert!(violation.rule.contains("epoch") || violation.rule.contains("commit"), "{violation}");
}
