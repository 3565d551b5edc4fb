//! Sequence targets in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use onceward_protocol::{Position, SinkIdentity};

use super::{catches, refusal, texts};
use crate::contract::{SequenceTarget, sequence_writer};
use crate::{SequenceWriter, SinkBlock, TargetError};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    RepeatsNotDropped,
    WholeBlocksOnly,
    GapsAccepted,
    RefusesAfterTheRowsAreIn,
    NumberLoweredByLateRetry,
    MinorIgnored,
    SignedPositions,
    PartitionIgnored,
    SinkIgnored,
    CreationIgnored,
    UnknownProducerTrusted,
    KeptByTheWriter,
}

#[derive(Default)]
struct State {
    rows: Vec<String>,
    held: BTreeMap<String, Position>,
}

struct Memory {
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
}

struct Writer {
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
    producer: String,
    own: Option<Position>,
}

impl SequenceTarget for Memory {
    fn writer(&self, producer: &SinkIdentity) -> Result<Box<dyn SequenceWriter>, String> {
        let partition = format!("{:?}", producer.partition.encode());
        let producer = match self.fault {
            Some(Fault::PartitionIgnored) => format!("{}/{}", producer.partition.creation(), producer.sink),
            Some(Fault::SinkIgnored) => partition,
            Some(Fault::CreationIgnored) => format!("{}/{}", producer.partition.label(), producer.sink),
            _ => format!("{partition}/{}", producer.sink),
        };
        Ok(Box::new(Writer { fault: self.fault, state: self.state.clone(), producer, own: None }))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        Ok(self.state.lock().expect("no test panicked").rows.clone())
    }
}

impl SequenceWriter for Writer {
    fn write(&mut self, block: &SinkBlock, after: Position) -> Result<(), TargetError> {
        let broken = |fault| self.fault == Some(fault);
        let mut state = self.state.lock().expect("no test panicked");
        let known = state.held.get(&self.producer).copied();
        let known = if broken(Fault::KeptByTheWriter) { self.own.or(known) } else { known };
        let held = known.unwrap_or(Position::ORIGIN);
        let trusted = broken(Fault::UnknownProducerTrusted) && known.is_none();
        let gap = above(self.fault, after, held) && !broken(Fault::GapsAccepted) && !trusted;
        if gap && !broken(Fault::RefusesAfterTheRowsAreIn) {
            return Err(refusal("a gap"));
        }
        let whole = broken(Fault::WholeBlocksOnly) && block.last().is_some_and(|last| last > held);
        for (position, row) in texts(block) {
            if above(self.fault, position, held) || broken(Fault::RepeatsNotDropped) || whole {
                state.rows.push(row);
            }
        }
        if gap {
            return Err(refusal("a gap"));
        }
        let last = block.last().unwrap_or(held);
        let next = if broken(Fault::NumberLoweredByLateRetry) { last } else { last.max(held) };
        state.held.insert(self.producer.clone(), next);
        self.own = Some(next);
        Ok(())
    }
}

fn above(fault: Option<Fault>, position: Position, held: Position) -> bool {
    match fault {
        Some(Fault::MinorIgnored) => position.major > held.major,
        Some(Fault::SignedPositions) => {
            (position.major as i64, position.minor) > (held.major as i64, held.minor)
        }
        _ => position > held,
    }
}

#[test]
fn a_sequence_target_that_breaks_its_contract_is_named() {
    use Fault::*;
    let faults = [
        RepeatsNotDropped,
        WholeBlocksOnly,
        GapsAccepted,
        RefusesAfterTheRowsAreIn,
        NumberLoweredByLateRetry,
        MinorIgnored,
        SignedPositions,
        PartitionIgnored,
        SinkIgnored,
        CreationIgnored,
        UnknownProducerTrusted,
        KeptByTheWriter,
    ];
    catches(&faults, |fault| sequence_writer(&Memory { fault, state: Arc::default() }));
}
