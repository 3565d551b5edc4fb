//! Targets in memory that keep our progress.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use onceward_protocol::{Fence, Marker, Position};

use super::{catches, refusal, texts};
use crate::contract::{ProgressTarget, progress_writer};
use crate::{ProgressWriter, SinkBlock, TargetError};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    PositionNotCompared,
    FenceNotCompared,
    FenceKeptByTheWriter,
    MarkerWithoutRows,
    RowsBeforeTheCheck,
    FenceLosesThePosition,
    FenceMakesAMarker,
    CreateWithoutFence,
    EmptyWriteRefused,
    IdentityIgnored,
    FenceOfTheWholeTarget,
    SignedPositions,
}

#[derive(Default, Clone)]
struct Progress {
    fence: Option<Fence>,
    position: Option<Position>,
}

#[derive(Default)]
struct State {
    rows: Vec<String>,
    progress: BTreeMap<&'static str, Progress>,
}

struct Memory {
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
}

struct Writer {
    fault: Option<Fault>,
    identity: &'static str,
    state: Arc<Mutex<State>>,
    own: Option<Fence>,
}

impl Memory {
    fn of(&self, identity: &'static str) -> Box<dyn ProgressWriter> {
        let identity = if self.fault == Some(Fault::IdentityIgnored) { "same" } else { identity };
        Box::new(Writer { fault: self.fault, identity, state: self.state.clone(), own: None })
    }
}

impl ProgressTarget for Memory {
    fn writer(&self) -> Result<Box<dyn ProgressWriter>, String> {
        Ok(self.of("first"))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        Ok(self.state.lock().expect("no test panicked").rows.clone())
    }
    fn other_writer(&self) -> Option<Result<Box<dyn ProgressWriter>, String>> {
        Some(Ok(self.of("other")))
    }
}

impl Writer {
    fn broken(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
    fn holds(&self, there: &Progress, fence: Fence) -> bool {
        let held = if self.broken(Fault::FenceKeptByTheWriter) { self.own } else { there.fence };
        self.broken(Fault::FenceNotCompared) || held == Some(fence)
    }
}

impl ProgressWriter for Writer {
    fn take_fence(&mut self, fence: Fence) -> Result<(), TargetError> {
        self.own = Some(fence);
        let mut state = self.state.lock().expect("no test panicked");
        if self.broken(Fault::FenceOfTheWholeTarget) {
            state.progress.values_mut().for_each(|progress| progress.fence = Some(fence));
        }
        let progress = state.progress.entry(self.identity).or_default();
        progress.fence = Some(fence);
        match self.fault {
            Some(Fault::FenceLosesThePosition) => {
                progress.position = progress.position.map(|_| Position::ORIGIN)
            }
            Some(Fault::FenceMakesAMarker) => {
                progress.position = progress.position.or(Some(Position::ORIGIN))
            }
            _ => {}
        }
        Ok(())
    }
    fn read_marker(&mut self) -> Result<Option<Marker>, TargetError> {
        let state = self.state.lock().expect("no test panicked");
        let progress = state.progress.get(self.identity).cloned().unwrap_or_default();
        Ok(progress.position.zip(progress.fence).map(|(position, fence)| Marker { position, fence }))
    }
    fn create_marker(&mut self, marker: Marker) -> Result<(), TargetError> {
        let mut state = self.state.lock().expect("no test panicked");
        let progress = state.progress.entry(self.identity).or_default();
        if progress.fence != Some(marker.fence) && !self.broken(Fault::CreateWithoutFence) {
            return Err(TargetError::Fenced("another open".into()));
        }
        progress.position = Some(marker.position);
        Ok(())
    }
    fn write(&mut self, block: &SinkBlock, expected: Marker, next: Marker) -> Result<(), TargetError> {
        let mut state = self.state.lock().expect("no test panicked");
        let there = state.progress.get(self.identity).cloned().unwrap_or_default();
        if self.broken(Fault::RowsBeforeTheCheck) {
            state.rows.extend(texts(block).map(|(_, row)| row));
        }
        if !self.holds(&there, next.fence) || !self.holds(&there, expected.fence) {
            return Err(TargetError::Fenced("another open".into()));
        }
        if there.position != Some(expected.position) && !self.broken(Fault::PositionNotCompared) {
            return Err(refusal("the marker is elsewhere"));
        }
        if self.broken(Fault::EmptyWriteRefused) && block.is_empty() {
            return Err(refusal("nothing to write"));
        }
        let too_large = i64::try_from(next.position.major).is_err();
        if self.broken(Fault::SignedPositions) && too_large {
            return Err(refusal("too large a position"));
        }
        if !self.broken(Fault::RowsBeforeTheCheck) {
            state.rows.extend(texts(block).map(|(_, row)| row));
        }
        if self.broken(Fault::MarkerWithoutRows) && block.len() > 2 {
            state.rows.pop();
        }
        let progress = Progress { fence: Some(next.fence), position: Some(next.position) };
        state.progress.insert(self.identity, progress);
        Ok(())
    }
}

#[test]
fn a_progress_target_that_breaks_its_contract_is_named() {
    use Fault::*;
    let faults = [
        PositionNotCompared,
        FenceNotCompared,
        FenceKeptByTheWriter,
        MarkerWithoutRows,
        RowsBeforeTheCheck,
        FenceLosesThePosition,
        FenceMakesAMarker,
        CreateWithoutFence,
        EmptyWriteRefused,
        IdentityIgnored,
        FenceOfTheWholeTarget,
        SignedPositions,
    ];
    catches(&faults, |fault| progress_writer(&Memory { fault, state: Arc::default() }));
}
