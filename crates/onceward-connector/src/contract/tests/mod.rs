//! A reference target in memory for every contract, and broken ones that the suites must catch.

use crate::error::ConnectorError;
use crate::writer::TargetError;

mod plain;
mod progress;
mod sequence;
mod token;
mod upsert;

/// Checks that the suite passes the reference (`None`) and names a violation of every broken one.
fn catches<F: Copy + std::fmt::Debug>(faults: &[F], suite: impl Fn(Option<F>) -> Result<(), String>) {
    suite(None).expect("the reference keeps the contract");
    for fault in faults {
        let found = suite(Some(*fault));
        assert!(found.is_err(), "a target that breaks {fault:?} passes");
    }
}

fn refusal(message: &str) -> TargetError {
    TargetError::Definite(ConnectorError::new("OW-3999", message))
}

fn texts(block: &crate::SinkBlock) -> impl Iterator<Item = (onceward_protocol::Position, String)> {
    block.rows().map(|(position, row)| (position, String::from_utf8(row.to_vec()).expect("UTF-8")))
}
