//! One file of the fault-injecting disk: what a running process sees, and what survives.

use std::ops::Range;

use super::seed::Choices;

/// The unit that a device writes as a whole, in bytes.
pub(super) const SECTOR: usize = 512;

/// A file's bytes twice over.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// What differs between the two, as byte ranges of `current`, in order of writing.
    dirty: Vec<Range<usize>>,
}

fn copy(from: &[u8], to: &mut Vec<u8>, range: Range<usize>) {
    let end = range.end.min(from.len());
    if range.start >= end {
        return;
    }
    if to.len() < end {
        to.resize(end, 0);
    }
    to[range.start..end].copy_from_slice(&from[range.start..end]);
}

impl Inode {
    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.current.len() < end {
            self.current.resize(end, 0);
        }
        self.current[offset..end].copy_from_slice(bytes);
        self.dirty.push(offset..end);
    }
    pub(super) fn sync(&mut self) {
        for range in std::mem::take(&mut self.dirty) {
            copy(&self.current, &mut self.durable, range);
        }
    }
    /// A sync that failed: some sectors reached the device, the rest never will, for the system now
    /// believes them clean; a process that goes on reading sees everything all the same.
    pub(super) fn fail_sync(&mut self, choices: &mut Choices) {
        self.settle(choices);
    }
    /// A power loss: un-synced sectors are there or not; afterwards only that is seen.
    pub(super) fn lose_power(&mut self, choices: &mut Choices) {
        self.settle(choices);
        self.current.clone_from(&self.durable);
    }
    fn settle(&mut self, choices: &mut Choices) {
        let sectors: usize = self.dirty.iter().map(|range| range.len() / SECTOR + 1).sum();
        let mut survivors = choices.survivors(sectors as u64);
        for range in std::mem::take(&mut self.dirty) {
            let mut start = range.start;
            while start < range.end {
                let end = ((start / SECTOR + 1) * SECTOR).min(range.end);
                if survivors.next() {
                    copy(&self.current, &mut self.durable, start..end);
                }
                start = end;
            }
        }
        // The size may become durable without the data.
        if self.durable.len() < self.current.len() && choices.coin() {
            self.durable.resize(self.current.len(), 0);
        }
    }
    /// Damages the medium itself.
    pub(super) fn flip(&mut self, offset: usize, mask: u8) -> bool {
        let mut found = false;
        for bytes in [&mut self.current, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= mask;
                found = true;
            }
        }
        found
    }
    /// Puts bytes onto the medium itself.
    pub(super) fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        for kept in [&mut self.current, &mut self.durable] {
            if kept.len() < offset + bytes.len() {
                kept.resize(offset + bytes.len(), 0);
            }
            kept[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }
}
