//! What the driver checks in every test, whatever the test is about.

use onceward_engine::Layout;
use onceward_engine::controller::{Action, ControllerEnd, Happening, Notice};
use onceward_engine::layout::LAYOUT_KEY;
use onceward_protocol::state::PipelineState;
use onceward_store::{Operation, Store, WriteBatch};

use crate::world::{Pending, World};

/// The record that a transaction writes.
pub fn record_in(operations: &[Operation]) -> Option<Layout> {
    let commits = operations.iter().filter_map(|operation| match operation {
        Operation::Commit(commit) => Some(commit),
        _ => None,
    });
    let rows = commits.flat_map(|commit| WriteBatch::iter(commit.writes.as_bytes()));
    let record = rows.map(Result::unwrap).find(|entry| entry.key == LAYOUT_KEY)?;
    Some(Layout::decode(record.value.unwrap()).unwrap())
}

impl World {
    pub(crate) fn check_action(&self, action: &Action) {
        match action {
            Action::Transact(operations) => {
                let on_its_way = |pending: &Pending| {
                    matches!(
                        pending,
                        Pending::Action(Action::Transact(_)) | Pending::Notice(Notice::Transacted(_))
                    )
                };
                assert_eq!(self.waiting(on_its_way), 0, "two transactions at once");
                assert!(matches!(operations.first(), Some(Operation::Require(..))), "without its term");
                self.check_record(operations);
            }
            Action::Load(_) => {
                let on_its_way = |pending: &Pending| {
                    matches!(pending, Pending::Action(Action::Load(_)) | Pending::Notice(Notice::Loaded(_)))
                };
                assert_eq!(self.waiting(on_its_way), 0, "two loads at once");
            }
            // LOAD-AFTER-GRANT.
            Action::Assign { assignment, .. } => {
                let head = self.store.as_ref().unwrap().head(&assignment.partition.id).unwrap();
                assert_eq!(head.granted, Some(assignment.generation), "assigned before it was granted");
            }
            _ => {}
        }
    }
    /// What ends leases and what says so are one transaction, and what was recorded is not undone by the way.
    fn check_record(&self, operations: &[Operation]) {
        let Some(record) = record_in(operations) else { return };
        let known = self.layout();
        assert!(record.version >= known.version, "the layout went back");
        for (new, old) in record.keyed.iter().zip(&known.keyed) {
            let changes = record.version == known.version;
            assert!(changes || new.wanted == old.wanted, "what a user asked of {} is forgotten", new.name);
        }
        assert!(
            record.version == known.version || record.state == known.state,
            "a re-cut records that the pipeline is {}; it is {}",
            record.state,
            known.state
        );
        let was_running = known.state.has_jobs();
        if was_running && record.state.ends_leases().is_some() {
            for partition in record.partitions() {
                let revoked = operations
                    .iter()
                    .any(|operation| matches!(operation, Operation::Revoke(id) if *id == partition.id));
                assert!(revoked, "{} is {} and keeps its grant", partition.id.label(), record.state);
            }
        }
    }
    pub(crate) fn check_happening(&self, happening: &Happening) {
        let Happening::State(state) = happening else { return };
        assert_eq!(self.layout().state, *state, "said and not recorded");
        if state.ends_leases().is_some() {
            self.check_quiet(*state);
        }
    }
    pub(crate) fn check_end(&self, end: &ControllerEnd) {
        match end {
            ControllerEnd::Completed => self.check_quiet(PipelineState::Completed),
            ControllerEnd::Stopped => self.check_quiet(PipelineState::Stopped),
            ControllerEnd::Failed(_) | ControllerEnd::Fenced { .. } | ControllerEnd::StoreFailed => {}
        }
    }
    fn check_quiet(&self, state: PipelineState) {
        let layout = self.layout();
        assert_eq!(layout.state, state);
        assert!(self.controller().leases().is_empty(), "{state} with a lease");
        for partition in layout.partitions() {
            let head = self.store.as_ref().unwrap().head(&partition.id).unwrap();
            assert_eq!(head.granted, None, "{state} with a grant of {}", partition.id.label());
        }
    }
}
