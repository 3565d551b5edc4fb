//! Keyed state in tumbling windows: one table per open window, keys inline, the routing hash carried.
//!
//! A window's end is its timer: the timer exists exactly as long as the window has keys, and firing
//! deletes the keys in the same epoch (TIMER-ONCE, empty rule).

use std::collections::BTreeMap;

use onceward_protocol::codec::{order_i64, unorder_i64};
use onceward_spec::{AggregateFunction, WindowsSpec};
use onceward_store::{TableId, WriteBatch};

use crate::aggregate::Column;
use crate::key_index::{KeyIndex, prefetch};

/// Bytes of a key that are kept inside its entry.
const INLINE: usize = 22;

/// A key, inline if it is short.
#[derive(Clone, Debug)]
enum Key {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl Key {
    fn new(key: &[u8]) -> Self {
        if key.len() <= INLINE {
            let mut bytes = [0; INLINE];
            bytes[..key.len()].copy_from_slice(key);
            Key::Inline { len: key.len() as u8, bytes }
        } else {
            Key::Heap(key.into())
        }
    }
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Key::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Key::Heap(bytes) => bytes,
        }
    }
}

struct Entry {
    key: Key,
    dirty: bool,
}

/// The open window that starts at one time.
struct Window {
    index: KeyIndex,
    entries: Vec<Entry>,
    columns: Vec<Column>,
    dirty: Vec<u32>,
}

/// The table's hash: remixed from the routing hash, whose upper bits are constant within a key range.
#[inline]
fn table_hash(routing: u64) -> u32 {
    (routing.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
}

impl Window {
    fn new(kinds: &[(AggregateFunction, bool)]) -> Self {
        Window {
            index: KeyIndex::default(),
            entries: Vec::new(),
            columns: kinds.iter().map(|(function, argument)| Column::new(*function, *argument)).collect(),
            dirty: Vec::new(),
        }
    }
    #[inline]
    fn find_or_insert(&mut self, routing: u64, key: &[u8]) -> usize {
        let hash = table_hash(routing);
        let entries = &self.entries;
        if let Some(entry) = self.index.find(hash, |entry| entries[entry as usize].key.as_slice() == key) {
            return entry as usize;
        }
        let entry = self.entries.len();
        self.entries.push(Entry { key: Key::new(key), dirty: false });
        self.columns.iter_mut().for_each(Column::grow);
        self.index.insert(hash, entry as u32);
        entry
    }
    #[inline]
    fn prefetch_entry(&self, routing: u64) {
        if let Some(entry) = self.index.guess(table_hash(routing)) {
            prefetch(&self.entries[entry as usize]);
            self.columns.iter().for_each(|column| column.prefetch(entry as usize));
        }
    }
    #[inline]
    fn mark(&mut self, entry: usize) {
        if !self.entries[entry].dirty {
            self.entries[entry].dirty = true;
            self.dirty.push(entry as u32);
        }
    }
}

/// All open windows of one key-range partition.
pub struct WindowState {
    kinds: Vec<(AggregateFunction, bool)>,
    windows: BTreeMap<i64, Window>,
    /// The window of the last message, taken out of the map: the next one is most likely for it too.
    hot: Option<(i64, Window)>,
    keys: u64,
    deletes: Vec<u8>,
    delete_ends: Vec<usize>,
    scratch_key: Vec<u8>,
    scratch_value: Vec<u8>,
}

/// A key that left a fired window, with its results.
pub struct Fired<'a> {
    /// Window start, microseconds.
    pub window_start: i64,
    /// The encoded group key.
    pub key: &'a [u8],
    columns: &'a [Column],
    entry: usize,
}

impl Fired<'_> {
    /// Appends the `column`-th result as JSON.
    pub fn write_json(&self, column: usize, out: &mut Vec<u8>) -> Result<(), String> {
        self.columns[column].write_json(self.entry, out)
    }
}

impl WindowState {
    /// Empty state for the aggregates of `spec`.
    pub fn new(spec: &WindowsSpec) -> Self {
        WindowState {
            kinds: spec.compute.iter().map(|(_, call)| (call.function, call.argument.is_some())).collect(),
            windows: BTreeMap::new(),
            hot: None,
            keys: 0,
            deletes: Vec::new(),
            delete_ends: Vec::new(),
            scratch_key: Vec::new(),
            scratch_value: Vec::new(),
        }
    }
    /// Keys held over all windows.
    pub fn keys(&self) -> u64 {
        self.keys
    }
    /// The start of the oldest open window: its end is the next timer.
    pub fn first_window(&self) -> Option<i64> {
        let cold = self.windows.keys().next().copied();
        let hot = self.hot.as_ref().map(|(start, _)| *start);
        cold.into_iter().chain(hot).min()
    }
    fn cool(&mut self) {
        if let Some((start, window)) = self.hot.take() {
            self.windows.insert(start, window);
        }
    }
    #[cold]
    fn heat(&mut self, window_start: i64) {
        self.cool();
        let window = self.windows.remove(&window_start).unwrap_or_else(|| Window::new(&self.kinds));
        self.hot = Some((window_start, window));
    }
    /// Asks for the index line that a message with this routing hash will need.
    #[inline]
    pub fn prefetch_slot(&self, hash: u64) {
        if let Some((_, window)) = &self.hot {
            window.index.prefetch(table_hash(hash));
        }
    }
    /// Asks for the entry that a message with this routing hash will need.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        if let Some((_, window)) = &self.hot {
            window.prefetch_entry(hash);
        }
    }
    /// Adds a row read from the store; `None` if it is malformed.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (start, group) = key.split_first_chunk::<8>()?;
        let kinds = &self.kinds;
        let window = self.windows.entry(unorder_i64(*start)).or_insert_with(|| Window::new(kinds));
        let hash = table_hash(onceward_protocol::routing_hash(group));
        let entry = window.entries.len() as u32;
        window.entries.push(Entry { key: Key::new(group), dirty: false });
        window.index.insert(hash, entry);
        let mut rest = value;
        for column in &mut window.columns {
            column.decode_push(&mut rest)?;
        }
        self.keys += 1;
        rest.is_empty().then_some(())
    }
    /// Takes one message into its window. On an error names the column.
    #[inline]
    pub fn update(
        &mut self,
        window_start: i64,
        hash: u64,
        key: &[u8],
        mut args: &[u8],
    ) -> Result<(), (usize, String)> {
        if self.hot.as_ref().is_none_or(|(start, _)| *start != window_start) {
            self.heat(window_start);
        }
        let Some((_, window)) = &mut self.hot else { return Ok(()) };
        let before = window.entries.len();
        let entry = window.find_or_insert(hash, key);
        self.keys += (window.entries.len() - before) as u64;
        for (index, column) in window.columns.iter_mut().enumerate() {
            column.update(entry, &mut args).map_err(|reason| (index, reason))?;
        }
        window.mark(entry);
        Ok(())
    }
    /// Fires up to `limit` keys of the window that starts at `window_start`. The caller has checked that
    /// it is closed, so that nothing can enter it any more. Answers whether the window is empty and gone.
    pub fn fire<X>(
        &mut self,
        window_start: i64,
        limit: usize,
        mut emit: impl FnMut(Fired<'_>) -> Result<(), X>,
    ) -> Result<bool, X> {
        self.cool();
        let Some(window) = self.windows.get_mut(&window_start) else { return Ok(true) };
        window.index = KeyIndex::default();
        window.dirty.clear();
        for _ in 0..limit {
            let Some(last) = window.entries.last() else { break };
            let entry = window.entries.len() - 1;
            emit(Fired { window_start, key: last.key.as_slice(), columns: &window.columns, entry })?;
            self.deletes.extend_from_slice(&order_i64(window_start));
            self.deletes.extend_from_slice(last.key.as_slice());
            self.delete_ends.push(self.deletes.len());
            window.entries.pop();
            window.columns.iter_mut().for_each(Column::pop);
            self.keys -= 1;
        }
        // What remains was perhaps changed in this epoch and must still be written by it.
        let dirty: Vec<u32> =
            (0..window.entries.len() as u32).filter(|entry| window.entries[*entry as usize].dirty).collect();
        window.dirty = dirty;
        let empty = window.entries.is_empty();
        if empty {
            self.windows.remove(&window_start);
        }
        Ok(empty)
    }
    /// Writes what changed since the last call.
    pub fn write_changes(&mut self, writes: &mut WriteBatch) {
        self.cool();
        let mut start = 0;
        for end in self.delete_ends.drain(..) {
            writes.delete(TableId::STATE, &self.deletes[start..end]);
            start = end;
        }
        self.deletes.clear();
        for (window_start, window) in &mut self.windows {
            self.scratch_key.clear();
            self.scratch_key.extend_from_slice(&order_i64(*window_start));
            for number in window.dirty.drain(..) {
                let entry = &mut window.entries[number as usize];
                entry.dirty = false;
                self.scratch_key.truncate(8);
                self.scratch_key.extend_from_slice(entry.key.as_slice());
                self.scratch_value.clear();
                for column in &window.columns {
                    column.encode(number as usize, &mut self.scratch_value);
                }
                writes.put(TableId::STATE, &self.scratch_key, &self.scratch_value);
            }
        }
    }
}
