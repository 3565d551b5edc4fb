//! The places from which the store changes files.

/// The static name of a place in the store that changes files.
pub type Site = &'static str;

/// Creating the store's directory.
pub const DIR_CREATE: Site = "dir.create";
/// Making names durable.
pub const DIR_SYNC: Site = "dir.sync";
/// Taking the single-process lock.
pub const LOCK_CREATE: Site = "lock.create";
/// Writing the format file under its temporary name.
pub const FORMAT_CREATE: Site = "format.create";
/// Writing the format file's bytes.
pub const FORMAT_WRITE: Site = "format.write";
/// Syncing the format file.
pub const FORMAT_SYNC: Site = "format.sync";
/// Renaming the format file into place.
pub const FORMAT_RENAME: Site = "format.rename";
/// Writing a group to the log.
pub const LOG_APPEND: Site = "log.append";
/// Making a group durable: the only point of durability.
pub const LOG_SYNC: Site = "log.sync";
/// On opening: writing the last group once more, and zeros over a torn end.
pub const LOG_REPAIR: Site = "log.repair";
/// On opening: making that durable.
pub const LOG_REPAIR_SYNC: Site = "log.repair_sync";
/// Creating a log segment.
pub const SEGMENT_CREATE: Site = "segment.create";
/// Filling a new segment with zeros.
pub const SEGMENT_ZERO: Site = "segment.zero";
/// Making a new segment's zeros durable.
pub const SEGMENT_SYNC: Site = "segment.sync";
/// Removing a segment that a snapshot covers.
pub const SEGMENT_REMOVE: Site = "segment.remove";
/// Creating a snapshot under its temporary name.
pub const SNAPSHOT_CREATE: Site = "snapshot.create";
/// Writing a piece of a snapshot.
pub const SNAPSHOT_WRITE: Site = "snapshot.write";
/// Making a snapshot's bytes durable.
pub const SNAPSHOT_SYNC: Site = "snapshot.sync";
/// Renaming a snapshot into place.
pub const SNAPSHOT_RENAME: Site = "snapshot.rename";
/// Removing a snapshot that a newer one replaces.
pub const SNAPSHOT_REMOVE: Site = "snapshot.remove";
/// Removing a file that a crash left half-written under its temporary name.
pub const UNFINISHED_REMOVE: Site = "unfinished.remove";

/// All of them, for a simulator that asserts its own coverage.
pub const ALL: [Site; 21] = [
    DIR_CREATE,
    DIR_SYNC,
    LOCK_CREATE,
    FORMAT_CREATE,
    FORMAT_WRITE,
    FORMAT_SYNC,
    FORMAT_RENAME,
    LOG_APPEND,
    LOG_SYNC,
    LOG_REPAIR,
    LOG_REPAIR_SYNC,
    SEGMENT_CREATE,
    SEGMENT_ZERO,
    SEGMENT_SYNC,
    SEGMENT_REMOVE,
    SNAPSHOT_CREATE,
    SNAPSHOT_WRITE,
    SNAPSHOT_SYNC,
    SNAPSHOT_RENAME,
    SNAPSHOT_REMOVE,
    UNFINISHED_REMOVE,
];
