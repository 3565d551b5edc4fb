//! The target system of one (sink, partition): rows, and what each contract makes it compare.

use std::collections::BTreeSet;

use onceward_connector::{ConnectorError, TargetError};
use onceward_engine::{TargetAnswer, TargetCall};
use onceward_protocol::{Fence, Marker, Position};

#[derive(Clone, Debug, Default)]
pub struct Target {
    pub fence: Option<Fence>,
    pub marker: Option<Marker>,
    /// The last row of a sequence.
    pub sequence: Position,
    pub tokens: BTreeSet<String>,
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
                self.rows.extend(block.rows().map(|(_, row)| text(row)));
                self.marker = Some(*next);
                Ok(TargetAnswer::Done)
            }
            TargetCall::SequenceWrite { after, .. } if *after > self.sequence => {
                Err(TargetError::Definite(ConnectorError::new("OW-3998", "rows are missing before these")))
            }
            TargetCall::SequenceWrite { block, .. } => {
                let new = block.rows().filter(|(position, _)| *position > self.sequence);
                self.rows.extend(new.map(|(_, row)| text(row)));
                self.sequence = self.sequence.max(block.last().unwrap());
                Ok(TargetAnswer::Done)
            }
            TargetCall::TokenWrite { token, .. } if !self.tokens.insert(token.text.clone()) => {
                Ok(TargetAnswer::Done)
            }
            TargetCall::TokenWrite { block, .. } | TargetCall::PlainWrite(block) => {
                self.rows.extend(block.rows().map(|(_, row)| text(row)));
                Ok(TargetAnswer::Done)
            }
        }
    }
}

/// What a call is called in tests.
pub fn kind(call: &TargetCall) -> &'static str {
    match call {
        TargetCall::TakeFence(_) => "take fence",
        TargetCall::ReadMarker => "read marker",
        TargetCall::CreateMarker(_) => "create marker",
        TargetCall::Write { .. } => "write",
        TargetCall::SequenceWrite { .. } => "sequence write",
        TargetCall::TokenWrite { .. } => "token write",
        TargetCall::PlainWrite(_) => "plain write",
    }
}

/// The rows that a call brings.
pub fn rows_of(call: &TargetCall) -> Vec<String> {
    match call {
        TargetCall::TakeFence(_) | TargetCall::ReadMarker | TargetCall::CreateMarker(_) => Vec::new(),
        TargetCall::Write { block, .. }
        | TargetCall::SequenceWrite { block, .. }
        | TargetCall::TokenWrite { block, .. }
        | TargetCall::PlainWrite(block) => block.rows().map(|(_, row)| text(row)).collect(),
    }
}

/// The calls of a first open, in order.
pub const KINDS: [&str; 4] = ["take fence", "read marker", "create marker", "write"];

/// A row as text.
pub fn text(row: &[u8]) -> String {
    String::from_utf8(row.to_vec()).unwrap()
}
