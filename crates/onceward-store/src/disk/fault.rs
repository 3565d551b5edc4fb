//! A deterministic in-memory disk that loses, tears, flips and refuses what it is told to.
//!
//! It models what a power loss may do: bytes that were not synced are there or not, per 512-byte
//! sector; names that were not synced are there or not, per operation. Which ones, a seed decides. A
//! failed sync leaves the data visible to a reader and lost to the device, as real systems do.
//!
//! Operations that change something are numbered from 0 since the disk was made; reads are not
//! counted, since a crash at one is a crash before the next change. Directories are durable when made.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inode::Inode;
use super::seed::Choices;
use super::{Disk, DiskFile, Locking, Site};

/// The error of every operation at and after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the simulated machine crashed at operation {op} ({site})")]
pub struct Crashed {
    /// The number of the operation at which it crashed.
    pub op: u64,
    /// Its place in the store.
    pub site: Site,
}

/// Whether `error` means that the simulated machine crashed.
pub fn is_crash(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Crashed>())
}

/// One thing that goes wrong at one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The operation does nothing and reports an error.
    Refused,
    /// The operation does nothing and reports a full device.
    Full,
    /// Only the first half of a write is written, and an error reported.
    ShortWrite,
    /// A sync fails; the seed decides which sectors reached the device all the same.
    FailedSync(u64),
    /// A write stores one bit wrong, chosen by the seed, and reports success.
    BitFlip(u64),
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Crash(u64),
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
enum When {
    Op(u64),
    /// The operation at this site that has so many of its kind before it, from now on.
    Site(Site, u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Create(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

impl NameChange {
    fn dir(&self) -> Option<&Path> {
        match self {
            NameChange::Create(path, _) | NameChange::Remove(path) | NameChange::Rename(_, path, _) => path,
        }
        .parent()
    }
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            NameChange::Create(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
            NameChange::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Machine {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    unsynced_names: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    capacity: Option<u64>,
    triggers: Vec<(When, Action)>,
    trace: Vec<Site>,
    crashed: Option<Crashed>,
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {}", path.display()))
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the simulated device is full")
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::Error::other("offset beyond memory"))
}

impl Machine {
    fn alive(&self) -> io::Result<()> {
        self.crashed.map_or(Ok(()), |crashed| Err(io::Error::other(crashed)))
    }
    /// Counts an operation and answers what is to go wrong with it.
    fn begin(&mut self, site: Site) -> io::Result<Option<Action>> {
        self.alive()?;
        let op = self.trace.len() as u64;
        self.trace.push(site);
        let mut due = None;
        self.triggers.retain_mut(|(when, action)| {
            let now = match when {
                When::Op(at) => *at == op,
                When::Site(at, 0) => *at == site,
                When::Site(at, before) => {
                    *before -= u64::from(*at == site);
                    false
                }
            };
            if now {
                due = Some(*action);
            }
            !now
        });
        if let Some(Action::Crash(_)) = due {
            self.crashed = Some(Crashed { op, site });
        }
        Ok(due)
    }
    /// For an operation that happens or does not: whether it happens, then its answer.
    fn whole(&mut self, site: Site) -> io::Result<(bool, io::Result<()>)> {
        Ok(match self.begin(site)? {
            None => (true, Ok(())),
            Some(Action::Crash(seed)) => (Choices::new(seed).coin(), self.alive()),
            Some(Action::Fault(Fault::Full)) => (false, Err(full())),
            Some(Action::Fault(_)) => (false, Err(io::Error::other("injected fault"))),
        })
    }
    fn inode(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or_else(|| io::Error::other("the file was removed"))
    }
    fn used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.current().len() as u64).sum()
    }
    fn rename_or(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }
    fn collect(&mut self) {
        let kept: BTreeSet<u64> = self.names.values().chain(self.durable_names.values()).copied().collect();
        let pending: BTreeSet<u64> = self
            .unsynced_names
            .iter()
            .filter_map(|change| match change {
                NameChange::Create(_, inode) | NameChange::Rename(_, _, inode) => Some(*inode),
                NameChange::Remove(_) => None,
            })
            .collect();
        self.inodes.retain(|inode, _| kept.contains(inode) || pending.contains(inode));
    }
}

/// A handle to a simulated disk; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FaultDisk {
    machine: Arc<Mutex<Machine>>,
}

/// A file of a [`FaultDisk`].
#[derive(Debug)]
pub struct FaultFile {
    machine: Arc<Mutex<Machine>>,
    inode: u64,
}

/// A lock held on a [`FaultDisk`].
#[derive(Debug)]
pub struct FaultLock {
    machine: Arc<Mutex<Machine>>,
    path: PathBuf,
}

fn enter(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultDisk {
    /// An empty disk.
    pub fn new() -> Self {
        FaultDisk::default()
    }
    fn machine(&self) -> MutexGuard<'_, Machine> {
        enter(&self.machine)
    }
    fn arm(&self, when: When, action: Action) {
        self.machine().triggers.push((when, action));
    }
    /// Crashes the machine at operation `op`: before it or half-way through, as `seed` says. It and
    /// everything after it fails with [`Crashed`].
    pub fn crash_at(&self, op: u64, seed: u64) {
        self.arm(When::Op(op), Action::Crash(seed));
    }
    /// Crashes at the operation of `site` that has `before` others of that site before it, from now on.
    pub fn crash_at_site(&self, site: Site, before: u64, seed: u64) {
        self.arm(When::Site(site, before), Action::Crash(seed));
    }
    /// Lets operation `op` go wrong.
    pub fn inject(&self, op: u64, fault: Fault) {
        self.arm(When::Op(op), Action::Fault(fault));
    }
    /// Lets an operation of `site` go wrong, counted as for [`FaultDisk::crash_at_site`].
    pub fn inject_at_site(&self, site: Site, before: u64, fault: Fault) {
        self.arm(When::Site(site, before), Action::Fault(fault));
    }
    /// Limits the bytes of all files together; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().capacity = bytes;
    }
    /// How many operations were begun: the number of the next one.
    pub fn ops(&self) -> u64 {
        self.machine().trace.len() as u64
    }
    /// The site of every operation, in order.
    pub fn trace(&self) -> Vec<Site> {
        self.machine().trace.clone()
    }
    /// How often each site was reached.
    pub fn sites(&self) -> Vec<(Site, u64)> {
        let mut counts = BTreeMap::new();
        for site in &self.machine().trace {
            *counts.entry(*site).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }
    /// Whether the machine crashed, and where.
    pub fn crashed(&self) -> Option<Crashed> {
        self.machine().crashed
    }
    /// Where the machine crashed.
    pub fn last_crash_site(&self) -> Option<Site> {
        self.crashed().map(|crashed| crashed.site)
    }
    /// What is on the disk after a power loss. This handle is of no use afterwards.
    pub fn reboot(&self, seed: u64) -> FaultDisk {
        let machine = self.machine();
        let mut choices = Choices::new(seed);
        let mut names = machine.durable_names.clone();
        let mut survivors = choices.survivors(machine.unsynced_names.len() as u64);
        for change in machine.unsynced_names.iter().filter(|_| survivors.next()) {
            change.apply(&mut names);
        }
        let mut inodes = machine.inodes.clone();
        for inode in inodes.values_mut() {
            inode.lose_power(&mut choices);
        }
        let mut after = Machine {
            inodes,
            next_inode: machine.next_inode,
            durable_names: names.clone(),
            names,
            capacity: machine.capacity,
            ..Machine::default()
        };
        after.collect();
        FaultDisk { machine: Arc::new(Mutex::new(after)) }
    }
    /// What another process finds after this one was killed while the machine went on running: all
    /// that was written, durable or not. This handle is of no use afterwards.
    pub fn restart(&self) -> FaultDisk {
        let machine = self.machine();
        let after = Machine {
            inodes: machine.inodes.clone(),
            next_inode: machine.next_inode,
            names: machine.names.clone(),
            durable_names: machine.durable_names.clone(),
            unsynced_names: machine.unsynced_names.clone(),
            capacity: machine.capacity,
            ..Machine::default()
        };
        FaultDisk { machine: Arc::new(Mutex::new(after)) }
    }
    /// A file's bytes as a process reads them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let machine = self.machine();
        let inode = machine.names.get(path)?;
        machine.inodes.get(inode).map(|inode| inode.current().to_vec())
    }
    /// Flips the bits of `mask` in one byte on the medium. Answers whether the byte was there.
    pub fn flip(&self, path: &Path, offset: usize, mask: u8) -> bool {
        let mut machine = self.machine();
        let Some(inode) = machine.names.get(path).copied() else { return false };
        machine.inodes.get_mut(&inode).is_some_and(|inode| inode.flip(offset, mask))
    }
    /// Puts bytes onto the medium, creating the file if it is absent: how a test forges or damages.
    pub fn overwrite(&self, path: &Path, offset: usize, bytes: &[u8]) {
        let mut machine = self.machine();
        let inode = machine.names.get(path).copied().unwrap_or(machine.next_inode);
        if inode == machine.next_inode {
            machine.next_inode += 1;
            machine.names.insert(path.to_owned(), inode);
            machine.durable_names.insert(path.to_owned(), inode);
        }
        machine.inodes.entry(inode).or_default().overwrite(offset, bytes);
    }
    /// Takes a file off the medium.
    pub fn erase(&self, path: &Path) {
        let mut machine = self.machine();
        machine.names.remove(path);
        machine.durable_names.remove(path);
    }
}

impl Disk for FaultDisk {
    type File = FaultFile;
    type Lock = FaultLock;

    fn create_dir(&self, site: Site, _dir: &Path) -> io::Result<()> {
        self.machine().whole(site)?.1
    }
    fn create(&self, site: Site, path: &Path) -> io::Result<FaultFile> {
        let mut machine = self.machine();
        let (happens, answer) = machine.whole(site)?;
        let inode = machine.next_inode;
        if happens {
            if machine.names.contains_key(path) {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists"));
            }
            machine.next_inode += 1;
            machine.inodes.insert(inode, Inode::default());
            machine.rename_or(NameChange::Create(path.to_owned(), inode));
        }
        answer.map(|()| FaultFile { machine: Arc::clone(&self.machine), inode })
    }
    fn open(&self, path: &Path) -> io::Result<FaultFile> {
        let machine = self.machine();
        machine.alive()?;
        let inode = *machine.names.get(path).ok_or_else(|| missing(path))?;
        Ok(FaultFile { machine: Arc::clone(&self.machine), inode })
    }
    fn rename(&self, site: Site, from: &Path, to: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        let (happens, answer) = machine.whole(site)?;
        if happens {
            let inode = *machine.names.get(from).ok_or_else(|| missing(from))?;
            machine.rename_or(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        }
        answer
    }
    fn remove(&self, site: Site, path: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        let (happens, answer) = machine.whole(site)?;
        if happens {
            if !machine.names.contains_key(path) {
                return Err(missing(path));
            }
            machine.rename_or(NameChange::Remove(path.to_owned()));
        }
        answer
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let machine = self.machine();
        machine.alive()?;
        let inside = machine.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }
    fn sync_dir(&self, site: Site, dir: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        let (happens, answer) = machine.whole(site)?;
        if happens {
            let (synced, kept) = std::mem::take(&mut machine.unsynced_names)
                .into_iter()
                .partition::<Vec<_>, _>(|change| change.dir() == Some(dir));
            machine.unsynced_names = kept;
            for change in synced {
                change.apply(&mut machine.durable_names);
            }
            machine.collect();
        }
        answer
    }
    fn space(&self, _dir: &Path) -> io::Result<u64> {
        let machine = self.machine();
        machine.alive()?;
        Ok(machine.capacity.map_or(u64::MAX, |limit| limit.saturating_sub(machine.used())))
    }
    fn lock(&self, site: Site, path: &Path, _note: &str) -> io::Result<Locking<FaultLock>> {
        let mut machine = self.machine();
        machine.whole(site)?.1?;
        if !machine.locks.insert(path.to_owned()) {
            return Ok(Locking::Held("of the simulated machine".to_owned()));
        }
        Ok(Locking::Acquired(FaultLock { machine: Arc::clone(&self.machine), path: path.to_owned() }))
    }
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        enter(&self.machine).locks.remove(&self.path);
    }
}

impl DiskFile for FaultFile {
    fn write_at(&self, site: Site, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = index(offset)?;
        let mut machine = enter(&self.machine);
        let action = machine.begin(site)?;
        let growth = (offset + bytes.len()).saturating_sub(machine.inode(self.inode)?.current().len()) as u64;
        if machine.capacity.is_some_and(|limit| machine.used() + growth > limit) {
            return Err(full());
        }
        let crashed = machine.alive();
        let inode = machine.inode(self.inode)?;
        match action {
            None => inode.write(offset, bytes),
            Some(Action::Crash(seed)) => {
                let done = Choices::new(seed).below(bytes.len() as u64 + 1);
                inode.write(offset, &bytes[..index(done)?]);
            }
            Some(Action::Fault(Fault::ShortWrite)) => {
                inode.write(offset, &bytes[..bytes.len() / 2]);
                return Err(io::Error::new(io::ErrorKind::WriteZero, "injected short write"));
            }
            Some(Action::Fault(Fault::BitFlip(seed))) => {
                let mut flipped = bytes.to_vec();
                let bit = Choices::new(seed).below(bytes.len() as u64 * 8);
                if let Some(byte) = flipped.get_mut(index(bit / 8)?) {
                    *byte ^= 1 << (bit % 8);
                }
                inode.write(offset, &flipped);
            }
            Some(Action::Fault(Fault::Full)) => return Err(full()),
            Some(Action::Fault(_)) => return Err(io::Error::other("injected write error")),
        }
        crashed
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = index(offset)?;
        let mut machine = enter(&self.machine);
        machine.alive()?;
        let bytes = machine.inode(self.inode)?.current();
        let available = bytes.get(offset..).unwrap_or_default();
        let len = available.len().min(buffer.len());
        buffer[..len].copy_from_slice(&available[..len]);
        Ok(len)
    }
    fn sync_data(&self, site: Site) -> io::Result<()> {
        let mut machine = enter(&self.machine);
        let action = machine.begin(site)?;
        let crashed = machine.alive();
        let inode = machine.inode(self.inode)?;
        match action {
            None => inode.sync(),
            // What a half-done sync wrote is for the reboot to decide.
            Some(Action::Crash(_)) => {}
            Some(Action::Fault(Fault::FailedSync(seed))) => {
                inode.fail_sync(&mut Choices::new(seed));
                return Err(io::Error::other("injected sync failure"));
            }
            Some(Action::Fault(Fault::Full)) => return Err(full()),
            Some(Action::Fault(_)) => return Err(io::Error::other("injected fault")),
        }
        crashed
    }
    fn size(&self) -> io::Result<u64> {
        let mut machine = enter(&self.machine);
        machine.alive()?;
        Ok(machine.inode(self.inode)?.current().len() as u64)
    }
}
