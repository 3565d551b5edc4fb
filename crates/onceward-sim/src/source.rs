//! The simulated source: partitions in memory that can be read again from any place.

use std::sync::Arc;

use onceward_connector::{Read, ReadLimits, Record, RecordBatch};
use onceward_protocol::Position;

use crate::data::Input;

/// A reader of one partition. Position `n` is the n-th row, from 1.
#[derive(Debug)]
pub struct Reader {
    input: Arc<Input>,
    partition: usize,
    next: usize,
}

impl Reader {
    /// Reads after `position`.
    pub fn open(input: Arc<Input>, partition: usize, position: Position) -> Self {
        Reader { input, partition, next: position.major as usize }
    }
    /// Reads up to `rows` rows.
    pub fn read(&mut self, limits: ReadLimits, rows: usize) -> Read {
        let all = &self.input.partitions[self.partition];
        if self.next >= all.len() {
            return Read::End;
        }
        let until = all.len().min(self.next + rows.clamp(1, limits.rows));
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        for (offset, row) in all[self.next..until].iter().enumerate() {
            let position = Position::at((self.next + offset + 1) as u64);
            records.push(Record { start: bytes.len() as u32, len: row.json.len() as u32, position });
            bytes.extend_from_slice(&row.json);
        }
        self.next = until;
        Read::Batch { batch: RecordBatch::new(bytes, records), token: (until as u64).to_be_bytes().to_vec() }
    }
}
