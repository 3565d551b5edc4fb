//! The target system of one (sink, partition) that keeps our progress: rows, a fence and a marker (MARKER-CAS).

use onceward_connector::TargetError;
use onceward_engine::{TargetAnswer, TargetCall};
use onceward_protocol::{Fence, Marker};

#[derive(Clone, Debug, Default)]
pub struct Target {
    fence: Option<Fence>,
    marker: Option<Marker>,
    pub rows: Vec<String>,
}

impl Target {
    pub fn apply(&mut self, call: &TargetCall) -> Result<TargetAnswer, TargetError> {
        let refused = || Err(TargetError::Fenced("a newer open holds the target".to_owned()));
        match call {
            TargetCall::TakeFence(fence) => {
                self.fence = Some(*fence);
                if let Some(marker) = &mut self.marker {
                    marker.fence = *fence;
                }
                Ok(TargetAnswer::Done)
            }
            TargetCall::ReadMarker => Ok(TargetAnswer::Marker(self.marker)),
            TargetCall::CreateMarker(marker) if self.fence != Some(marker.fence) => refused(),
            TargetCall::CreateMarker(marker) => {
                self.marker.get_or_insert(*marker);
                Ok(TargetAnswer::Done)
            }
            TargetCall::Write { expected, .. } if self.marker != Some(*expected) => refused(),
            TargetCall::Write { block, next, .. } => {
                self.rows.extend(block.rows().map(|(_, row)| String::from_utf8(row.to_vec()).unwrap()));
                self.marker = Some(*next);
                Ok(TargetAnswer::Done)
            }
            other => panic!("no sink here makes this call: {other:?}"),
        }
    }
}
