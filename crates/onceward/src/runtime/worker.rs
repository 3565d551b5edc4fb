//! A worker thread: steps its jobs, reads their sources, hands everything else on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use onceward_connector::{ConnectorError, Read, ReadLimits, Source, SourceReader};
use onceward_engine::{Event, Job, Request, Stored};
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{PartitionHead, PartitionId, Position};
use onceward_store::StoreHandle;

use super::coordinator::Board;
use super::rate::Rate;
use super::targets::TargetWork;
use super::{Notice, Post};
use crate::error::RunError;

/// Events handled between two looks at timers and figures.
const EVENTS_PER_TURN: usize = 64;
/// How often figures are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// Reads what is stored of a partition, after its grant (LOAD-AFTER-GRANT).
pub(crate) fn load(
    store: &StoreHandle,
    partition: &PartitionId,
    head: PartitionHead,
) -> Result<Stored, RunError> {
    let stored = Stored::read(partition, head, |table, visit| {
        store.scan(partition, table)?.into_iter().for_each(|(key, value)| visit(&key, &value));
        Ok(())
    })?;
    Ok(stored)
}

struct PendingRead {
    tag: u32,
    seek: Option<ResumePoint>,
    limits: ReadLimits,
}

/// One job and what belongs to it.
pub(crate) struct Slot {
    number: u32,
    job: Job,
    source: Option<(Arc<dyn Source>, String)>,
    reader: Option<Box<dyn SourceReader>>,
    read: Option<PendingRead>,
    wake: i64,
    ended: bool,
    read_to_end: bool,
}

impl Slot {
    pub(crate) fn new(number: u32, job: Job, source: Option<(Arc<dyn Source>, String)>) -> Self {
        Slot {
            number,
            job,
            source,
            reader: None,
            read: None,
            wake: i64::MAX,
            ended: false,
            read_to_end: false,
        }
    }

    fn read_now(&mut self, read: &PendingRead) -> Result<Read, ConnectorError> {
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
}

/// One worker thread.
pub(crate) struct Worker {
    slots: Vec<Slot>,
    mailbox: Receiver<Post>,
    routes: Arc<[Sender<Post>]>,
    targets: Vec<Sender<TargetWork>>,
    store: StoreHandle,
    notices: Sender<Notice>,
    board: Arc<Board>,
    rate: Option<Arc<Rate>>,
    local: VecDeque<(u32, Event)>,
    requests: Vec<Request>,
    started: Instant,
    published: Instant,
    /// Where the next look for reads begins, so that a rate limit is shared.
    next_read: usize,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "a thread's whole surroundings, given once")]
    pub(crate) fn new(
        slots: Vec<Slot>,
        mailbox: Receiver<Post>,
        routes: Arc<[Sender<Post>]>,
        targets: Vec<Sender<TargetWork>>,
        store: StoreHandle,
        notices: Sender<Notice>,
        board: Arc<Board>,
        rate: Option<Arc<Rate>>,
        started: Instant,
    ) -> Self {
        Worker {
            slots,
            mailbox,
            routes,
            targets,
            store,
            notices,
            board,
            rate,
            local: VecDeque::new(),
            requests: Vec::new(),
            started,
            published: started,
            next_read: 0,
        }
    }

    fn now(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Runs until the coordinator ends the run: a completed job may still be asked by a producer.
    pub(crate) fn run(mut self) {
        while self.receive() {
            for _ in 0..EVENTS_PER_TURN {
                let Some((number, event)) = self.local.pop_front() else { break };
                self.step(number, event);
            }
            self.due_reads();
            self.due_ticks();
            self.publish(false);
        }
        self.publish(true);
    }

    /// Takes what has arrived; waits if there is nothing else to do. False if the run is abandoned.
    fn receive(&mut self) -> bool {
        loop {
            match self.mailbox.try_recv() {
                Ok(Post::Event(number, event)) => self.local.push_back((number, event)),
                Ok(Post::Abandon) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => break,
            }
        }
        if !self.local.is_empty() {
            return true;
        }
        match self.mailbox.recv_timeout(self.idle_time()) {
            Ok(Post::Event(number, event)) => {
                self.local.push_back((number, event));
                true
            }
            Ok(Post::Abandon) | Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => true,
        }
    }

    fn idle_time(&self) -> Duration {
        let now = self.now();
        let wake =
            self.slots.iter().filter(|slot| !slot.ended).map(|slot| slot.wake).min().unwrap_or(i64::MAX);
        let until_wake = u64::try_from(wake.saturating_sub(now)).unwrap_or(0);
        let mut idle = Duration::from_micros(until_wake).min(PUBLISH_EVERY);
        if self.slots.iter().any(|slot| slot.read.is_some()) {
            idle = match &self.rate {
                Some(rate) => rate.reserve(0).err().unwrap_or_default().min(idle),
                None => Duration::ZERO,
            };
        }
        idle
    }

    fn step(&mut self, number: u32, event: Event) {
        let now = self.now();
        let Some(index) = self.slots.iter().position(|slot| slot.number == number) else { return };
        let mut requests = std::mem::take(&mut self.requests);
        self.slots[index].job.handle(now, event, &mut requests);
        for request in requests.drain(..) {
            self.carry_out(index, request);
        }
        self.requests = requests;
        let slot = &mut self.slots[index];
        if let Job::Source(job) = &slot.job
            && job.has_ended()
            && !slot.read_to_end
        {
            slot.read_to_end = true;
            slot.reader = None;
            let _ = self.notices.send(Notice::ReadToEnd);
        }
    }

    fn carry_out(&mut self, index: usize, request: Request) {
        let number = self.slots[index].number;
        match request {
            Request::Lane { to, message } => {
                if self.slots.iter().any(|slot| slot.number == to) {
                    self.local.push_back((to, Event::Lane(message)));
                } else {
                    let _ = self.routes[to as usize].send(Post::Event(to, Event::Lane(message)));
                }
            }
            Request::Read { tag, seek, limits } => {
                self.slots[index].read = Some(PendingRead { tag, seek, limits });
            }
            Request::Commit(commit) => {
                let epoch = commit.epoch;
                let route = self.routes[number as usize].clone();
                let (board, submitted) = (self.board.clone(), Instant::now());
                let done = Box::new(move |outcome| {
                    board.commit_latency().record(submitted.elapsed().as_micros() as u64);
                    let _ = route.send(Post::Event(number, Event::Commit { epoch, outcome }));
                });
                self.store.submit_commit(commit, done);
            }
            Request::Target { sink, call } => {
                let _ = self.targets[sink as usize].send(TargetWork { partition: number, sink, call });
            }
            Request::Wake(at) => self.slots[index].wake = at,
            Request::End(end) => {
                let slot = &mut self.slots[index];
                slot.ended = true;
                slot.reader = None;
                slot.read = None;
                self.board.set(number, &slot.job, progress(slot));
                // A job whose partition an earlier run had read to its end never reads: its turn is over too.
                if slot.source.is_some() && !slot.read_to_end {
                    slot.read_to_end = true;
                    let _ = self.notices.send(Notice::ReadToEnd);
                }
                let _ = self.notices.send(Notice::Ended(number, end));
            }
        }
    }

    fn due_reads(&mut self) {
        let count = self.slots.len();
        self.next_read = (self.next_read + 1) % count.max(1);
        for index in (0..count).map(|step| (self.next_read + step) % count) {
            let Some(mut read) = self.slots[index].read.take() else { continue };
            if let Some(rate) = &self.rate {
                read.limits.rows = read.limits.rows.min(rate.rows_per_read());
                if rate.reserve(read.limits.rows).is_err() {
                    self.slots[index].read = Some(read);
                    continue;
                }
            }
            let answer = self.slots[index].read_now(&read);
            if let Some(rate) = &self.rate {
                let rows = match &answer {
                    Ok(Read::Batch { batch, .. }) => batch.records().len(),
                    _ => 0,
                };
                rate.give_back(read.limits.rows.saturating_sub(rows));
            }
            let number = self.slots[index].number;
            self.local.push_back((number, Event::Read { tag: read.tag, read: answer }));
        }
    }

    fn due_ticks(&mut self) {
        let now = self.now();
        for slot in self.slots.iter_mut().filter(|slot| !slot.ended && slot.wake <= now) {
            slot.wake = i64::MAX;
            self.local.push_back((slot.number, Event::Tick));
        }
    }

    fn publish(&mut self, last: bool) {
        if !last && self.published.elapsed() < PUBLISH_EVERY {
            return;
        }
        self.published = Instant::now();
        for slot in &self.slots {
            self.board.set(slot.number, &slot.job, progress(slot));
        }
    }
}

/// Bytes read and size of a source partition, if the source can tell.
fn progress(slot: &Slot) -> Option<(u64, u64)> {
    let (source, partition) = slot.source.as_ref()?;
    let Job::Source(job) = &slot.job else { return None };
    let size = source.size(partition)?;
    let done = if job.has_ended() { size } else { source.progress(job.read_token()).unwrap_or(0) };
    Some((done.min(size), size))
}
