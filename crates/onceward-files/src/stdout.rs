//! The `stdout` sink: rows as JSON lines on standard output, for a look or a pipe.

use std::io::{self, Write};
use std::sync::Arc;

use onceward_connector::{
    BlockPolicy, Config, ConfigSchema, ConnectorError, Field, FieldKind, PlainWriter, Sink, SinkBlock,
    SinkConnector, SinkContract, StreamShape, TargetError, Writer,
};
use onceward_protocol::SinkIdentity;
use onceward_protocol::guarantee::{Level, Promise};

use crate::sink::encode::push_json_line;

static SCHEMA: ConfigSchema = ConfigSchema {
    connector: "stdout",
    doc: "Prints rows to standard output, one per line.",
    fields: &[Field {
        name: "format",
        kind: FieldKind::Enum(&["jsonl"]),
        required: false,
        default: Some("jsonl"),
        live: false,
        doc: "`jsonl`: one JSON object per line.",
    }],
};

/// The sink type `stdout`.
pub struct StdoutConnector;

impl SinkConnector for StdoutConnector {
    fn schema(&self) -> &'static ConfigSchema {
        &SCHEMA
    }
    fn promise(&self, _config: &Config) -> Promise {
        Promise {
            level: Level::AtLeastOnce,
            reason: "what reads standard output keeps no note of ours, so a line that is printed again after a restart \
                     looks like a new one"
                .into(),
            conditions: Vec::new(),
        }
    }
    fn build(&self, _config: &Config, _input: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError> {
        Ok(Arc::new(Stdout))
    }
}

struct Stdout;

impl Sink for Stdout {
    fn contract(&self) -> SinkContract {
        SinkContract::Plain
    }
    fn block_policy(&self) -> BlockPolicy {
        BlockPolicy { max_rows: 1000, max_bytes: 1024 * 1024, max_age_us: 200_000 }
    }
    fn fingerprint(&self) -> String {
        "stdout".into()
    }
    fn writer(&self, _identity: &SinkIdentity) -> Result<Writer, ConnectorError> {
        Ok(Writer::Plain(Box::new(LineWriter::new(io::stdout()))))
    }
}

/// Writes rows as lines. A block is one call to the output, so that lines of several partitions do
/// not mix as long as the output takes it whole.
pub struct LineWriter<W> {
    output: W,
    lines: Vec<u8>,
}

impl<W: Write> LineWriter<W> {
    /// A writer on an output.
    pub fn new(output: W) -> Self {
        LineWriter { output, lines: Vec::new() }
    }
}

impl<W: Write + Send> PlainWriter for LineWriter<W> {
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError> {
        self.lines.clear();
        block.rows().for_each(|(_, row)| push_json_line(&mut self.lines, row));
        let written = self.output.write_all(&self.lines).and_then(|()| self.output.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => TargetError::Definite(ConnectorError::new(
                "OW-3120",
                "the program that read standard output has ended, so rows can no longer be printed. Rows already handed to \
                 it are not printed again. Start again with a reader that stays until the end, or write to a `file` sink",
            )),
            _ => TargetError::Definite(ConnectorError::new(
                "OW-3121",
                format!(
                    "standard output takes no more: {error}. Nothing is lost; free the cause (a full disk behind a \
                     redirection, for example) and start again, or write to a `file` sink"
                ),
            )),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_connector::RowChunk;
    use onceward_protocol::Position;

    struct Fails(io::ErrorKind);
    impl Write for Fails {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }
    fn block() -> SinkBlock {
        let mut chunk = RowChunk::default();
        chunk.push(Position::at(1), b"{\"a\":1}");
        chunk.push(Position::at(2), b"{\"a\":\n2}");
        SinkBlock { parts: vec![(Arc::new(chunk), 0..2)] }
    }

    #[test]
    fn every_row_is_one_line() {
        let mut out = Vec::new();
        LineWriter::new(&mut out).write(&block()).expect("writes");
        assert_eq!(String::from_utf8(out).expect("utf-8"), "{\"a\":1}\n{\"a\": 2}\n");
    }

    #[test]
    fn a_closed_pipe_or_a_full_disk_is_final_and_says_so() {
        let broken = LineWriter::new(Fails(io::ErrorKind::BrokenPipe)).write(&block());
        let Err(TargetError::Definite(error)) = broken else { panic!("expected Definite, found {broken:?}") };
        assert_eq!(error.code, "OW-3120");
        let full = LineWriter::new(Fails(io::ErrorKind::StorageFull)).write(&block());
        let Err(TargetError::Definite(error)) = full else { panic!("expected Definite, found {full:?}") };
        assert_eq!(error.code, "OW-3121");
    }

    #[test]
    fn it_promises_no_more_than_at_least_once() {
        assert_eq!(StdoutConnector.promise(&Config::default()).level, Level::AtLeastOnce);
    }
}
