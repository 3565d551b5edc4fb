//! The `Store` trait and the embedded store.
//!
//! The trait speaks epochs and ordered scans, not single puts: an epoch is one atomic write, accepted
//! only from the job that owns the partition and only on top of the commit that job had seen.
//!
//! *Architecture invariant:* a store knows partitions, generations and bytes; it never knows what the
//! bytes mean.

pub mod batch;
pub mod contract;
pub mod disk;
pub mod embedded;
pub mod error;
pub mod service;
pub mod store;

pub use batch::{TableId, WriteBatch};
pub use embedded::{EmbeddedCore, FORMAT_VERSION, MaintenanceDone, MaintenanceJob, MaintenanceKind, Options};
pub use error::StoreError;
pub use service::{EmbeddedStore, StoreHandle};
pub use store::{EpochCommit, Operation, Outcome, Store, Ticket};
