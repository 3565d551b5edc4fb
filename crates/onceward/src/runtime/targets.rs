//! One thread per sink calls its targets; calls of one partition's writer never overlap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use onceward_connector::{Sink, TargetError, Writer};
use onceward_engine::{Event, TargetAnswer, TargetCall};
use onceward_protocol::SinkIdentity;

use super::Post;
use super::coordinator::LastOf;
use super::routes::Routes;

/// Whose call it is, and who gets the answer.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) worker: u32,
    pub(crate) partition: u32,
    /// The job.
    pub(crate) uid: u64,
    pub(crate) identity: Arc<SinkIdentity>,
}

/// What the thread of a sink is asked to do.
pub(crate) enum TargetWork {
    /// Make a call.
    Call { caller: Caller, sink: u32, call: TargetCall },
    /// The job has ended: its writer is not needed any more.
    Forget(u64),
    /// Let go of this: what was asked before is done.
    Settle(Arc<LastOf>),
}

/// The thread of one sink.
pub(crate) struct TargetThread {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) work: Receiver<TargetWork>,
    pub(crate) routes: Arc<Routes>,
}

impl TargetThread {
    /// Works until everybody who could ask has gone.
    pub(crate) fn run(self) {
        let mut writers: BTreeMap<u64, Writer> = BTreeMap::new();
        while let Ok(work) = self.work.recv() {
            match work {
                TargetWork::Call { caller, sink, call } => {
                    let answer = self.call(&mut writers, &caller, call);
                    let event = Event::Target { sink, answer };
                    let Caller { worker, partition, uid, .. } = caller;
                    self.routes.post(worker, Post::Answer { partition, uid, event });
                }
                TargetWork::Forget(uid) => drop(writers.remove(&uid)),
                TargetWork::Settle(last) => drop(last),
            }
        }
    }

    fn call(
        &self,
        writers: &mut BTreeMap<u64, Writer>,
        caller: &Caller,
        call: TargetCall,
    ) -> Result<TargetAnswer, TargetError> {
        let writer = match writers.entry(caller.uid) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(self.sink.writer(&caller.identity).map_err(TargetError::Definite)?)
            }
        };
        apply(writer, call)
    }
}
/// Makes one call.
fn apply(writer: &mut Writer, call: TargetCall) -> Result<TargetAnswer, TargetError> {
    match (writer, call) {
        (Writer::Progress(writer), TargetCall::TakeFence(fence)) => writer.take_fence(fence)?,
        (Writer::Progress(writer), TargetCall::ReadMarker) => {
            return writer.read_marker().map(TargetAnswer::Marker);
        }
        (Writer::Progress(writer), TargetCall::CreateMarker(marker)) => writer.create_marker(marker)?,
        (Writer::Progress(writer), TargetCall::Write { block, expected, next }) => {
            writer.write(&block, expected, next)?;
        }
        (Writer::Plain(writer), TargetCall::PlainWrite(block)) => writer.write(&block)?,
        (Writer::Sequence(writer), TargetCall::SequenceWrite { block, after }) => {
            writer.write(&block, after)?
        }
        (Writer::Token(writer), TargetCall::TokenWrite { block, token }) => writer.write(&block, &token)?,
        (_, call) => {
            return Err(TargetError::Definite(onceward_connector::ConnectorError::new(
                "OW-5510",
                format!("the sink does not keep the contract it declared: {call:?}"),
            )));
        }
    }
    Ok(TargetAnswer::Done)
}
