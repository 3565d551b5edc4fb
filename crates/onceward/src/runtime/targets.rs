//! One thread per sink calls its targets; calls of one partition's writer never overlap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use onceward_connector::{Sink, TargetError, Writer};
use onceward_engine::{Event, TargetAnswer, TargetCall};
use onceward_protocol::SinkIdentity;

use super::Post;

/// One call to make.
pub(crate) struct TargetWork {
    pub(crate) partition: u32,
    pub(crate) sink: u32,
    pub(crate) call: TargetCall,
}

/// The thread of one sink.
pub(crate) struct TargetThread {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) identities: BTreeMap<u32, SinkIdentity>,
    pub(crate) work: Receiver<TargetWork>,
    pub(crate) routes: Arc<[Sender<Post>]>,
}

impl TargetThread {
    /// Works until every worker has gone.
    pub(crate) fn run(self) {
        let mut writers: BTreeMap<u32, Writer> = BTreeMap::new();
        while let Ok(TargetWork { partition, sink, call }) = self.work.recv() {
            let answer = self.call(&mut writers, partition, call);
            let _ =
                self.routes[partition as usize].send(Post::Event(partition, Event::Target { sink, answer }));
        }
    }

    fn call(
        &self,
        writers: &mut BTreeMap<u32, Writer>,
        partition: u32,
        call: TargetCall,
    ) -> Result<TargetAnswer, TargetError> {
        let writer = match writers.entry(partition) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(self.sink.writer(&self.identities[&partition]).map_err(TargetError::Definite)?)
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
