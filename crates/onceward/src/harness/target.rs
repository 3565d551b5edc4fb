//! The captured sinks: targets that keep rows and progress in memory and survive every kill.

use std::collections::BTreeMap;

use onceward_connector::{BlockPolicy, SinkContract, TargetError};
use onceward_engine::plan::SinkBehaviour;
use onceward_engine::{TargetAnswer, TargetCall};
use onceward_protocol::{Fence, Marker};

use super::error::foreign_call;

/// Rows per block.
const BLOCK_ROWS: usize = 1000;
/// Payload bytes per block.
const BLOCK_BYTES: usize = 1 << 20;

/// How every captured sink behaves, whatever the manifest's connector would do: exactly-once, at once, and strict
/// about rows being JSON objects.
pub(super) const BEHAVIOUR: SinkBehaviour = SinkBehaviour {
    contract: SinkContract::ProgressInTarget,
    policy: BlockPolicy { max_rows: BLOCK_ROWS, max_bytes: BLOCK_BYTES, max_age_us: 0 },
    reads_fields: true,
    by_reference: false,
};

/// The progress of one (sink, partition).
#[derive(Default)]
struct Progress {
    fence: Option<Fence>,
    marker: Option<Marker>,
}

/// All targets.
#[derive(Default)]
pub(super) struct Targets {
    progress: BTreeMap<(u32, u32), Progress>,
    rows: BTreeMap<u32, Vec<String>>,
    /// How many rows of each sink the test has looked at.
    seen: BTreeMap<u32, usize>,
}

impl Targets {
    /// Every row of a sink, in the order of delivery.
    pub(super) fn rows(&self, sink: u32) -> &[String] {
        self.rows.get(&sink).map_or(&[], Vec::as_slice)
    }
    /// The rows since the last call.
    pub(super) fn new_rows(&mut self, sink: u32) -> Vec<String> {
        let all = self.rows.get(&sink).map_or(&[][..], Vec::as_slice);
        let seen = self.seen.entry(sink).or_default();
        let new = all.get(*seen..).unwrap_or_default().to_vec();
        *seen = all.len();
        new
    }
    /// Makes a call; each is all or nothing.
    pub(super) fn apply(
        &mut self,
        sink: u32,
        partition: u32,
        call: &TargetCall,
    ) -> Result<TargetAnswer, TargetError> {
        let progress = self.progress.entry((sink, partition)).or_default();
        let fenced = || TargetError::Fenced("a newer open holds the target".to_owned());
        match call {
            TargetCall::TakeFence(fence) => {
                progress.fence = Some(*fence);
                if let Some(marker) = &mut progress.marker {
                    marker.fence = *fence;
                }
            }
            TargetCall::ReadMarker => return Ok(TargetAnswer::Marker(progress.marker)),
            TargetCall::CreateMarker(marker) => {
                if progress.fence != Some(marker.fence) {
                    return Err(fenced());
                }
                progress.marker.get_or_insert(*marker);
            }
            TargetCall::Write { block, expected, next } => {
                if progress.marker != Some(*expected) {
                    return Err(fenced());
                }
                progress.marker = Some(*next);
                let texts = block.rows().map(|(_, row)| String::from_utf8_lossy(row).into_owned());
                self.rows.entry(sink).or_default().extend(texts);
            }
            TargetCall::SequenceWrite { .. } | TargetCall::TokenWrite { .. } | TargetCall::PlainWrite(_) => {
                return Err(TargetError::Definite(foreign_call("a write of another contract")));
            }
        }
        Ok(TargetAnswer::Done)
    }
}
