//! What a driver and a job say to each other.

use std::sync::Arc;

use onceward_connector::{BlockToken, ConnectorError, Read, ReadLimits, SinkBlock, TargetError};
use onceward_protocol::balance::BUCKETS;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{CommitOutcome, Fence, Generation, Marker, Position, Watermark};
use onceward_store::EpochCommit;

use crate::controller::JobReport;
use crate::error::EngineError;
use crate::keyed_job::KeyedJob;
use crate::lane::LaneMessage;
use crate::plan::Wiring;
use crate::source_job::SourceJob;

/// Something that happened. The driver passes the time with it.
#[derive(Debug)]
pub enum Event {
    /// The job may begin; sent once.
    Begin,
    /// A requested wake-up.
    Tick,
    /// The answer to [`Request::Read`].
    Read {
        /// The request's tag.
        tag: u32,
        /// What the reader answered.
        read: Result<Read, ConnectorError>,
    },
    /// Something arrived on a lane.
    Lane(LaneMessage),
    /// The answer to [`Request::Commit`].
    Commit {
        /// The epoch.
        epoch: u64,
        /// What became of it.
        outcome: CommitOutcome,
    },
    /// The answer to [`Request::Target`].
    Target {
        /// The sink's number.
        sink: u32,
        /// What the target answered.
        answer: Result<TargetAnswer, TargetError>,
    },
    /// Finish the open epoch, flush and confirm the sinks, commit, end. With `drain` also wait until everything
    /// that was read or put out is committed by whoever takes it.
    Stop {
        /// Whether to wait for consumers too.
        drain: bool,
    },
    /// Commit what is taken, start no further call of a target, end when none is under way (QUIET-PAUSE).
    Halt,
    /// Commit what is taken and end: a successor goes on, or the partition's children.
    Retire,
    /// The layout changed.
    Rewire(Box<Wiring>),
}

/// Something that the driver shall do. Answers come as events, in any order across requests.
#[derive(Debug)]
pub enum Request {
    /// Read on, or first seek to `seek`. At most one read is out at a time.
    Read {
        /// Carried by the answer.
        tag: u32,
        /// Where to open the reader anew.
        seek: Option<ResumePoint>,
        /// How much at most.
        limits: ReadLimits,
    },
    /// Hand a message to the job of a partition, in order per pair of jobs.
    Lane {
        /// The partition's number in the layout.
        to: u32,
        /// The message.
        message: LaneMessage,
    },
    /// Commit an epoch, in order.
    Commit(EpochCommit),
    /// Call a sink's target. At most one call per sink is out at a time.
    Target {
        /// The sink's number.
        sink: u32,
        /// The call.
        call: TargetCall,
    },
    /// Send a [`Event::Tick`] at or after this time (microseconds); later requests replace earlier ones.
    Wake(i64),
    /// The job has ended. After `Completed` it must still be handed lane messages, until the pipeline ends.
    End(JobEnd),
}

/// One call of a target.
#[derive(Clone, Debug)]
pub enum TargetCall {
    /// `ProgressWriter::take_fence`.
    TakeFence(Fence),
    /// `ProgressWriter::read_marker`.
    ReadMarker,
    /// `ProgressWriter::create_marker`.
    CreateMarker(Marker),
    /// `ProgressWriter::write`.
    Write {
        /// The rows.
        block: Arc<SinkBlock>,
        /// What the marker must be.
        expected: Marker,
        /// What it becomes.
        next: Marker,
    },
    /// `SequenceWriter::write`.
    SequenceWrite {
        /// The rows.
        block: Arc<SinkBlock>,
        /// The last row that the target has confirmed.
        after: Position,
    },
    /// `TokenWriter::write`.
    TokenWrite {
        /// The rows.
        block: Arc<SinkBlock>,
        /// What the target remembers the block by.
        token: BlockToken,
    },
    /// `PlainWriter::write`.
    PlainWrite(Arc<SinkBlock>),
}

/// A target's good answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetAnswer {
    /// Done.
    Done,
    /// The marker that was read.
    Marker(Option<Marker>),
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// All input has ended, everything is delivered and committed.
    Completed,
    /// Stopped on request, everything taken is delivered and committed.
    Stopped,
    /// Ended so that a successor or the partition's children go on; everything taken is committed.
    Retired,
    /// A retired partition has nothing left to deliver, and that is recorded.
    Drained,
    /// Another job owns the partition or the target now.
    Fenced(String),
    /// A commit's outcome is unknown (OWN-COMMIT): a successor reads what is stored.
    Unknown,
    /// It failed.
    Failed(EngineError),
}

/// Figures of one job, for progress display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobStats {
    /// Messages taken, over the partition's whole life.
    pub rows_in: u64,
    /// Messages dropped as repeats by this job.
    pub repeats: u64,
    /// Messages that came after their window had fired, over the partition's whole life.
    pub late: u64,
    /// Messages whose client-chosen id was too old to judge, over the partition's whole life.
    pub expired: u64,
    /// Rows put into outboxes, over the partition's whole life.
    pub rows_out: u64,
    /// Last committed epoch.
    pub epoch: u64,
    /// Effective watermark.
    pub watermark: Watermark,
    /// Keys held in open windows.
    pub keys: u64,
}

/// Figures of one sink of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SinkStats {
    /// The sink's number.
    pub sink: u32,
    /// Rows that the target has confirmed, over the partition's whole life.
    pub delivered: u64,
    /// Rows owed to the target.
    pub owed: u64,
    /// Rows that the target has not confirmed and that will not be tried again, over the partition's whole life: only
    /// at most once.
    pub dropped: u64,
}

impl Default for JobStats {
    fn default() -> Self {
        JobStats {
            rows_in: 0,
            repeats: 0,
            late: 0,
            expired: 0,
            rows_out: 0,
            epoch: 0,
            watermark: Watermark::NONE,
            keys: 0,
        }
    }
}

/// A job of either kind.
pub enum Job {
    /// Reads one source partition.
    Source(Box<SourceJob>),
    /// Owns one key range.
    Keyed(Box<KeyedJob>),
}

impl Job {
    /// Takes one event at `now` (microseconds) and appends what is to be done.
    pub fn handle(&mut self, now: i64, event: Event, out: &mut Vec<Request>) {
        match self {
            Job::Source(job) => job.handle(now, event, out),
            Job::Keyed(job) => job.handle(now, event, out),
        }
    }
    /// Current figures.
    pub fn stats(&self) -> JobStats {
        match self {
            Job::Source(job) => job.stats(),
            Job::Keyed(job) => job.stats(),
        }
    }
    /// What the job says of itself with its worker's heartbeat.
    pub fn report(&self, partition: u32, generation: Generation) -> JobReport {
        let (load, buckets) = match self {
            Job::Source(job) => (job.load(), [0; BUCKETS]),
            Job::Keyed(job) => (job.load().messages(), job.load().buckets()),
        };
        JobReport { partition, generation, load, buckets }
    }
    /// Current figures of its sinks.
    pub fn sinks(&self) -> Vec<SinkStats> {
        match self {
            Job::Source(job) => job.sinks().collect(),
            Job::Keyed(job) => job.sinks().collect(),
        }
    }
}
