//! Epoch chaining and the commit permit (CHAIN, GEN-PER-JOB, OWN-COMMIT).

use crate::generation::Generation;
use crate::mutants::{Mutant, Mutants};

/// The last commit of a partition: which job, and its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The job that committed.
    pub generation: Generation,
    /// Its epoch. Epochs of a partition only grow, across generations too.
    pub epoch: u64,
}

/// What the store keeps for a partition: who may commit, and on top of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartitionHead {
    /// The generation of the latest grant; `None` before the first and after a revocation.
    pub granted: Option<Generation>,
    /// The number of the latest grant, kept across revocations so that it is never reused.
    pub last_number: u64,
    /// The last commit.
    pub head: Option<Head>,
}

impl PartitionHead {
    /// The head after `generation` was granted the partition. Every grant revokes the one before.
    #[must_use]
    pub fn grant(mut self, generation: Generation) -> Self {
        self.last_number = self.last_number.max(generation.number);
        self.granted = Some(generation);
        self
    }

    /// Passes the fence, or not. A commit is accepted only from the job that owns the partition and
    /// only on top of the very commit that job had seen. There is no other way to a permit, so that
    /// a store that forgets to ask does not compile.
    pub fn permit(
        &self,
        generation: Generation,
        epoch: u64,
        predecessor: Option<Head>,
        mutants: Mutants,
    ) -> Result<CommitPermit, Fenced> {
        if !mutants.has(Mutant::ChainNotCompared) {
            if self.granted != Some(generation) {
                return Err(Fenced::NotOwner { granted: self.granted, asked: generation });
            }
            if self.head != predecessor {
                return Err(Fenced::Chain { stored: self.head, named: predecessor });
            }
            if self.head.is_some_and(|head| epoch <= head.epoch) {
                return Err(Fenced::Chain { stored: self.head, named: predecessor });
            }
        }
        Ok(CommitPermit { next: Head { generation, epoch } })
    }

    /// The head after the commit that `permit` allowed.
    #[must_use]
    pub fn committed(mut self, permit: CommitPermit) -> Self {
        self.head = Some(permit.next);
        self
    }
}

/// Proof that a commit passed the fence; obtained only from [`PartitionHead::permit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a permit that is not applied is a lost commit"]
pub struct CommitPermit {
    next: Head,
}

impl CommitPermit {
    /// The head that the commit sets.
    pub fn next(&self) -> Head {
        self.next
    }
}

/// Why a commit was refused. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fenced {
    /// Another job owns the partition now.
    #[error("another job owns the partition now (granted {granted:?}, asked by {asked})")]
    NotOwner {
        /// The current owner.
        granted: Option<Generation>,
        /// Who asked.
        asked: Generation,
    },
    /// The commit does not follow the last one.
    #[error("the commit does not follow the last one (stored {stored:?}, named {named:?})")]
    Chain {
        /// The last commit.
        stored: Option<Head>,
        /// The predecessor that the commit named.
        named: Option<Head>,
    },
}

/// What became of a commit: exactly three answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitOutcome {
    /// Durable, and everything before it too (DURABLE-PREFIX).
    Committed,
    /// Refused; nothing was written.
    Fenced(Fenced),
    /// It may or may not be durable.
    Unknown,
}

/// OWN-COMMIT: an `Unknown` means committed only if the stored record carries my generation and an
/// epoch at or after mine.
pub fn own_commit(stored: Option<Head>, generation: Generation, epoch: u64) -> bool {
    stored.is_some_and(|head| head.generation == generation && head.epoch >= epoch)
}
