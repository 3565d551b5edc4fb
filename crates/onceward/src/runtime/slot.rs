//! One job on a worker, and what belongs to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_connector::{ConnectorError, Read, ReadLimits, Source, SourceReader};
use onceward_engine::Job;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Generation, Position};

use super::targets::Caller;

/// A read that a job has asked for.
pub(crate) struct PendingRead {
    pub(crate) tag: u32,
    pub(crate) seek: Option<ResumePoint>,
    pub(crate) limits: ReadLimits,
}

/// One job and what belongs to it.
pub(crate) struct Slot {
    pub(crate) number: u32,
    /// Names this very job in answers that come later.
    pub(crate) uid: u64,
    pub(crate) generation: Generation,
    pub(crate) job: Job,
    pub(crate) source: Option<(Arc<dyn Source>, String)>,
    pub(crate) reader: Option<Box<dyn SourceReader>>,
    pub(crate) read: Option<PendingRead>,
    /// By sink number.
    pub(crate) callers: BTreeMap<u32, Caller>,
    pub(crate) wake: i64,
    pub(crate) read_to_end: bool,
}

impl Slot {
    pub(crate) fn new(
        number: u32,
        uid: u64,
        generation: Generation,
        job: Job,
        source: Option<(Arc<dyn Source>, String)>,
        callers: BTreeMap<u32, Caller>,
    ) -> Self {
        Slot {
            number,
            uid,
            generation,
            job,
            source,
            reader: None,
            read: None,
            callers,
            wake: i64::MAX,
            read_to_end: false,
        }
    }

    pub(crate) fn read_now(&mut self, read: &PendingRead) -> Result<Read, ConnectorError> {
        let Some((source, partition)) = &self.source else { return Ok(Read::End) };
        if let Some(point) = &read.seek {
            let token: &[u8] = if point.position == Position::ORIGIN { &[] } else { &point.token };
            self.reader = Some(source.open(partition, point.position, token)?);
        }
        match &mut self.reader {
            Some(reader) => reader.read(read.limits),
            None => Ok(Read::End),
        }
    }

    /// Bytes read and size of a source partition, if the source can tell.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        let (source, partition) = self.source.as_ref()?;
        let Job::Source(job) = &self.job else { return None };
        let size = source.size(partition)?;
        let done = if job.has_ended() { size } else { source.progress(job.read_token()).unwrap_or(0) };
        Some((done.min(size), size))
    }
}

/// Rows that a read brought.
pub(crate) fn rows(answer: &Result<Read, ConnectorError>) -> usize {
    match answer {
        Ok(Read::Batch { batch, .. }) => batch.records().len(),
        _ => 0,
    }
}
