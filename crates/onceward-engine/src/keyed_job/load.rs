//! What a keyed job finds in the store: its operator's state and the ids it has taken.

use std::sync::Arc;

use onceward_connector::ProcessFunction;
use onceward_spec::{DedupMode, KeyedSpec, OperatorSpec, ProcessingMode};

use crate::ids::Ids;
use crate::operator::{Operator, OperatorName};
use crate::process::Process;
use crate::stored::Stored;
use crate::windows::Windows;

/// The ids of messages that carry one; `None` if what is stored is malformed.
pub(super) fn ids(spec: &KeyedSpec, stored: &Stored) -> Option<Option<Ids>> {
    // Every lane is in order, so that its frontier tells the ids of messages.
    if spec.dedup.by.is_empty() {
        return Some(None);
    }
    // At least once, consistently: the set of ids is left out, and nothing else.
    let kept = spec.processing_mode == ProcessingMode::ExactlyOnce && spec.dedup.mode == DedupMode::Full;
    Ids::load(spec, kept, stored).map(Some)
}

/// The operator with its state; `None` if what is stored is malformed.
pub(super) fn operator(
    name: OperatorName,
    spec: &Arc<KeyedSpec>,
    retired: bool,
    function: Option<Box<dyn ProcessFunction>>,
    stored: &Stored,
) -> Option<Operator> {
    if retired {
        return Some(Operator::Retired);
    }
    match (&spec.operator, function) {
        (OperatorSpec::Windows(windows_spec), _) => {
            let mut windows = Windows::new(name, spec.clone(), windows_spec);
            for (key, value) in &stored.state {
                windows.load(key, value)?;
            }
            Some(Operator::Windows(Box::new(windows)))
        }
        (OperatorSpec::Process(process_spec), Some(function)) => {
            let mut process =
                Process::new(name, function, &process_spec.function.name, spec.group_by.clone());
            for (key, value) in &stored.state {
                process.load_state(key, value)?;
            }
            for (key, _) in &stored.timers {
                process.load_timer(key)?;
            }
            Some(Operator::Process(Box::new(process)))
        }
        (OperatorSpec::Process(_), None) => None,
    }
}
