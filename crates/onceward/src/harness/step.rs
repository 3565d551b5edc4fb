//! What the machine does one at a time, and how each step is called in messages.

use onceward_connector::Read;
use onceward_engine::{Event, LaneMessage, TargetCall};

use super::setup::Setup;

/// What was asked for and is not carried out yet: one step each.
pub(super) enum Work {
    /// A job hears of something.
    Event { to: u32, event: Event },
    /// A sink is called.
    Call { by: u32, sink: u32, call: TargetCall },
    /// The store makes durable what was committed.
    Flush,
}

impl Work {
    /// The step in a user's words; `epochs` wait for a flush.
    pub(super) fn describe(&self, setup: &Setup, epochs: usize) -> String {
        match self {
            Work::Event { to, event } => format!("{} {}", setup.label(*to), happened(event)),
            Work::Call { by, sink, call } => {
                let sinks = &setup.plan.pipeline.sinks;
                let sink = sinks.get(*sink as usize).map_or("?", |sink| sink.name.as_str());
                let by = setup.label(*by);
                match call {
                    TargetCall::Write { block, .. } => {
                        format!("{by} wrote {} to sink {sink}", count(block.len(), "row"))
                    }
                    _ => format!("{by} opened sink {sink}"),
                }
            }
            Work::Flush => format!("{} became durable", count(epochs, "epoch")),
        }
    }
}

/// What a job did with an event.
fn happened(event: &Event) -> String {
    match event {
        Event::Begin => "began".to_owned(),
        Event::Read { read: Ok(Read::Batch { batch, .. }), .. } => {
            format!("read {}", count(batch.records().len(), "row"))
        }
        Event::Read { .. } => "read to its end".to_owned(),
        Event::Lane(LaneMessage::Batch(batch)) => {
            format!("was handed {}", count(batch.entries.len(), "message"))
        }
        Event::Lane(LaneMessage::Ack { .. }) => "was handed an acknowledgement".to_owned(),
        Event::Lane(LaneMessage::Credit { .. }) => "was handed a credit".to_owned(),
        Event::Lane(_) => "was handed a greeting".to_owned(),
        Event::Commit { epoch, .. } => format!("heard that its epoch {epoch} is committed"),
        Event::Target { .. } => "heard from a sink".to_owned(),
        _ => "was told something".to_owned(),
    }
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
