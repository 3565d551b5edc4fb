//! The simulated target: rows and a marker, written together, compared as MARKER-CAS asks.

use std::collections::BTreeMap;

use onceward_connector::{SinkBlock, TargetError};
use onceward_engine::{TargetAnswer, TargetCall};
use onceward_protocol::{Fence, Marker, Mutant, Mutants};

/// What one (sink, partition) holds.
#[derive(Clone, Debug, Default)]
struct Shelf {
    fence: Option<Fence>,
    marker: Option<Marker>,
    rows: Vec<Vec<u8>>,
    /// By row: when it was written.
    arrived: Vec<u64>,
}

impl Shelf {
    fn put(&mut self, block: &SinkBlock, clock: &mut u64) {
        for (_, row) in block.rows() {
            self.rows.push(row.to_vec());
            self.arrived.push(*clock);
            *clock += 1;
        }
    }
}

/// The target system: survives every crash of ours.
#[derive(Debug, Default)]
pub struct Target {
    shelves: BTreeMap<(u32, u32), Shelf>,
    mutants: Mutants,
    clock: u64,
    /// Calls it refused because a newer open owns the shelf.
    pub fenced: u64,
}

impl Target {
    /// An empty target.
    pub fn new(mutants: Mutants) -> Self {
        Target { shelves: BTreeMap::new(), mutants, clock: 0, fenced: 0 }
    }
    /// Applies a call.
    pub fn apply(
        &mut self,
        sink: u32,
        partition: u32,
        call: &TargetCall,
    ) -> Result<TargetAnswer, TargetError> {
        let compare = !self.mutants.has(Mutant::MarkerNotCompared);
        let shelf = self.shelves.entry((sink, partition)).or_default();
        let refused = |what: &str| Err(TargetError::Fenced(format!("{what} under an older fence")));
        let answer = match call {
            TargetCall::TakeFence(fence) => {
                shelf.fence = Some(*fence);
                if let Some(marker) = &mut shelf.marker {
                    marker.fence = *fence;
                }
                Ok(TargetAnswer::Done)
            }
            TargetCall::ReadMarker => Ok(TargetAnswer::Marker(shelf.marker)),
            TargetCall::CreateMarker(marker) if compare && shelf.fence != Some(marker.fence) => {
                refused("create")
            }
            TargetCall::CreateMarker(marker) => {
                shelf.marker.get_or_insert(*marker);
                Ok(TargetAnswer::Done)
            }
            TargetCall::Write { expected, .. } if compare && shelf.marker != Some(*expected) => {
                refused("write")
            }
            TargetCall::Write { block, next, .. } => {
                shelf.put(block, &mut self.clock);
                shelf.marker = Some(*next);
                Ok(TargetAnswer::Done)
            }
            TargetCall::PlainWrite(block)
            | TargetCall::SequenceWrite { block, .. }
            | TargetCall::TokenWrite { block, .. } => {
                shelf.put(block, &mut self.clock);
                Ok(TargetAnswer::Done)
            }
        };
        self.fenced += u64::from(matches!(answer, Err(TargetError::Fenced(_))));
        answer
    }
    /// The rows of one sink in the order in which they were written, whatever their partition.
    pub fn arrived(&self, sink: u32) -> Vec<&[u8]> {
        let shelves = self.shelves.iter().filter(|((of, _), _)| *of == sink);
        let mut rows: Vec<(u64, &[u8])> = shelves
            .flat_map(|(_, shelf)| shelf.arrived.iter().copied().zip(shelf.rows.iter().map(Vec::as_slice)))
            .collect();
        rows.sort_unstable_by_key(|(arrived, _)| *arrived);
        rows.into_iter().map(|(_, row)| row).collect()
    }
    /// The rows of one sink, by partition, in the order in which they were written.
    pub fn rows(&self, sink: u32) -> impl Iterator<Item = (u32, &[Vec<u8>])> {
        self.shelves
            .iter()
            .filter(move |((of, _), _)| *of == sink)
            .map(|((_, partition), shelf)| (*partition, &shelf.rows[..]))
    }
}

/// The name of a call's kind, for coverage.
pub fn kind(call: &TargetCall) -> &'static str {
    match call {
        TargetCall::TakeFence(_) => "target.take_fence",
        TargetCall::ReadMarker => "target.read_marker",
        TargetCall::CreateMarker(_) => "target.create_marker",
        TargetCall::Write { .. } => "target.write",
        TargetCall::SequenceWrite { .. } => "target.sequence_write",
        TargetCall::TokenWrite { .. } => "target.token_write",
        TargetCall::PlainWrite(_) => "target.plain_write",
    }
}

/// The kinds of calls a pipeline with progress sinks makes.
pub const KINDS: [&str; 4] =
    ["target.take_fence", "target.read_marker", "target.create_marker", "target.write"];
