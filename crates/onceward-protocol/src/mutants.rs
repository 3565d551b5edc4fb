//! Switches that break one rule each, so that the simulator and the model check can show that they
//! would notice. Production code passes [`Mutants::NONE`].

/// One broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mutant {
    /// Epochs leave the lanes' frontiers out.
    FrontierNotPersisted = 0,
    /// The store accepts any commit (CHAIN, GEN-PER-JOB off).
    ChainNotCompared = 1,
    /// Inputs are acknowledged when the epoch is closed, before it is durable (ACK-IMPLIES-DURABLE off).
    AckBeforeCommit = 2,
    /// Commits acknowledge the taken instead of the committed frontier (TAKEN / COMMITTED off).
    TakenFrontierAcked = 3,
    /// Lanes accept messages of any session (SESSION-BOUND off).
    SessionOutlivesJob = 4,
    /// A snapshot is renamed into place before its data is synced.
    SnapshotRenamedUnsynced = 5,
    /// The target sets the marker without comparing (MARKER-CAS off).
    MarkerNotCompared = 6,
    /// A child of a re-cut range starts with nothing seen (SUBRANGE-FRONTIER off).
    ChildForgetsFrontier = 7,
    /// A merged range starts at its parents' largest frontier (SUBRANGE-FRONTIER off).
    FrontiersMergedByMaximum = 8,
    /// A range releases output while an ancestor has an undrained outbox (ANCESTOR-GATE off).
    GateIgnoresAncestor = 9,
    /// Rows leave the outbox when their write is attempted, not when it is confirmed.
    OutboxDroppedEarly = 10,
    /// A lane that the layout does not have is taken for a new one (DEFAULT-DENY off).
    RetiredLaneAccepted = 11,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 12] = [
        Mutant::FrontierNotPersisted,
        Mutant::ChainNotCompared,
        Mutant::AckBeforeCommit,
        Mutant::TakenFrontierAcked,
        Mutant::SessionOutlivesJob,
        Mutant::SnapshotRenamedUnsynced,
        Mutant::MarkerNotCompared,
        Mutant::ChildForgetsFrontier,
        Mutant::FrontiersMergedByMaximum,
        Mutant::GateIgnoresAncestor,
        Mutant::OutboxDroppedEarly,
        Mutant::RetiredLaneAccepted,
    ];
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mutant::FrontierNotPersisted => "frontier-not-persisted",
            Mutant::ChainNotCompared => "chain-not-compared",
            Mutant::AckBeforeCommit => "ack-before-commit",
            Mutant::TakenFrontierAcked => "taken-frontier-acked",
            Mutant::SessionOutlivesJob => "session-outlives-job",
            Mutant::SnapshotRenamedUnsynced => "snapshot-renamed-unsynced",
            Mutant::MarkerNotCompared => "marker-not-compared",
            Mutant::ChildForgetsFrontier => "child-forgets-frontier",
            Mutant::FrontiersMergedByMaximum => "frontiers-merged-by-maximum",
            Mutant::GateIgnoresAncestor => "gate-ignores-ancestor",
            Mutant::OutboxDroppedEarly => "outbox-dropped-early",
            Mutant::RetiredLaneAccepted => "retired-lane-accepted",
        }
    }
}

/// A set of broken rules; empty in production.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mutants(u32);

impl Mutants {
    /// Every rule holds.
    pub const NONE: Mutants = Mutants(0);
    /// Exactly one rule is broken.
    pub const fn only(mutant: Mutant) -> Self {
        Mutants(1 << mutant as u32)
    }
    /// Whether `mutant` is switched on.
    #[inline]
    pub const fn has(self, mutant: Mutant) -> bool {
        self.0 & (1 << mutant as u32) != 0
    }
}
