//! The `blackhole` sink: takes rows, counts them and forgets them, to measure everything before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward_connector::{
    BlockPolicy, Config, ConfigSchema, ConnectorError, PlainWriter, Sink, SinkBlock, SinkConnector,
    SinkContract, StreamShape, TargetError, Writer,
};
use onceward_protocol::SinkIdentity;
use onceward_protocol::guarantee::{Level, Promise};

static SCHEMA: ConfigSchema =
    ConfigSchema { connector: "blackhole", doc: "Counts rows and forgets them.", fields: &[] };

/// What was taken so far, repeats included.
#[derive(Debug, Default)]
pub struct Counts {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    /// Rows.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
    /// Payload bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The sink type `blackhole`. All sinks that one connector builds count together.
#[derive(Default)]
pub struct BlackholeConnector {
    counts: Arc<Counts>,
}

impl BlackholeConnector {
    /// What its sinks have taken.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }
}

impl SinkConnector for BlackholeConnector {
    fn schema(&self) -> &'static ConfigSchema {
        &SCHEMA
    }
    fn promise(&self, _config: &Config) -> Promise {
        Promise {
            level: Level::AtLeastOnce,
            reason: "nothing is kept, so a row that comes again after a restart is counted again".into(),
            conditions: Vec::new(),
        }
    }
    fn build(&self, _config: &Config, _input: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError> {
        Ok(Arc::new(Blackhole { counts: self.counts() }))
    }
}

struct Blackhole {
    counts: Arc<Counts>,
}

impl Sink for Blackhole {
    fn contract(&self) -> SinkContract {
        SinkContract::Plain
    }
    fn block_policy(&self) -> BlockPolicy {
        BlockPolicy { max_rows: 100_000, max_bytes: 16 * 1024 * 1024, max_age_us: 100_000 }
    }
    fn fingerprint(&self) -> String {
        "blackhole".into()
    }
    fn writer(&self, _identity: &SinkIdentity) -> Result<Writer, ConnectorError> {
        Ok(Writer::Plain(Box::new(Counter { counts: self.counts.clone() })))
    }
}

struct Counter {
    counts: Arc<Counts>,
}

impl PlainWriter for Counter {
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError> {
        let bytes: usize = block.rows().map(|(_, row)| row.len()).sum();
        self.counts.rows.fetch_add(block.len() as u64, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_connector::RowChunk;
    use onceward_protocol::Position;

    #[test]
    fn rows_and_bytes_are_counted_over_all_writers_and_only_the_range_of_a_block() {
        let connector = BlackholeConnector::default();
        let mut chunk = RowChunk::default();
        for (number, row) in (1..).zip([&b"{}"[..], b"{\"a\":1}", b"{\"a\":22}"]) {
            chunk.push(Position::at(number), row);
        }
        let block = SinkBlock { parts: vec![(Arc::new(chunk), 1..3)] };
        for _ in 0..2 {
            let mut writer = Counter { counts: connector.counts() };
            writer.write(&block).expect("takes everything");
        }
        let counts = connector.counts();
        assert_eq!((counts.rows(), counts.bytes()), (4, 2 * (7 + 8)));
    }

    #[test]
    fn it_promises_no_more_than_at_least_once() {
        assert_eq!(BlackholeConnector::default().promise(&Config::default()).level, Level::AtLeastOnce);
    }
}
