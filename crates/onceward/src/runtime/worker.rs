//! A worker thread: steps its jobs, reads their sources, hands everything else on, and says that it is there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use onceward_connector::Source;
use onceward_engine::controller::{Assignment, JobReport, Notice};
use onceward_engine::layout::Role;
use onceward_engine::{Event, Job, JobEnd, Layout, Plan, Request};
use onceward_protocol::lease::{Tenure, WorkerId};
use onceward_protocol::{Generation, SinkIdentity};
use onceward_store::StoreHandle;

use super::board::Board;
use super::clock::Clock;
use super::rate::Rate;
use super::routes::{Router, Routes};
use super::slot::{PendingRead, Slot};
use super::targets::{Caller, TargetWork};
use super::{HEARTBEAT_US, Heard, LEASE_US, Order, Post};

/// Events handled between two looks at timers and figures.
const EVENTS_PER_TURN: usize = 64;
/// How often figures are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// What a worker is given.
pub(crate) struct Surroundings {
    pub(crate) id: u32,
    pub(crate) plan: Arc<Plan>,
    pub(crate) sources: Vec<Arc<dyn Source>>,
    pub(crate) mailbox: Receiver<Post>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) targets: Vec<Sender<TargetWork>>,
    pub(crate) loader: Sender<Box<Assignment>>,
    pub(crate) store: StoreHandle,
    pub(crate) heard: Sender<Heard>,
    pub(crate) board: Arc<Board>,
    pub(crate) rate: Option<Arc<Rate>>,
    pub(crate) clock: Arc<Clock>,
}

/// A job that is being built, and what it will be told first.
struct Building {
    generation: Generation,
    early: Vec<Event>,
}

/// One worker thread.
pub(crate) struct Worker {
    around: Surroundings,
    router: Router,
    tenure: Tenure,
    next_heartbeat: i64,
    building: BTreeMap<u32, Building>,
    slots: Vec<Slot>,
    /// Where the slot of a partition is, by its number; out of range for none.
    places: Vec<usize>,
    wakes: BTreeSet<(i64, u32)>,
    /// Partitions that wait for a read, in turn, so that a rate limit is shared.
    reads: VecDeque<u32>,
    local: VecDeque<(u32, Event)>,
    requests: Vec<Request>,
    next_uid: u64,
    published: Instant,
}

impl Worker {
    pub(crate) fn new(around: Surroundings) -> Self {
        let now = around.clock.now();
        Worker {
            router: Router::new(around.routes.clone(), around.id),
            tenure: Tenure::new(now, LEASE_US),
            next_heartbeat: now,
            building: BTreeMap::new(),
            slots: Vec::new(),
            places: Vec::new(),
            wakes: BTreeSet::new(),
            reads: VecDeque::new(),
            local: VecDeque::new(),
            requests: Vec::new(),
            next_uid: 1,
            published: Instant::now(),
            around,
        }
    }

    /// Runs until the coordinator ends the run: a completed job may still be asked by a producer.
    pub(crate) fn run(mut self) {
        loop {
            self.heartbeat();
            if !self.receive() {
                break;
            }
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

    fn tell(&self, notice: Notice) {
        let _ = self.around.heard.send(Heard::Notice(notice));
    }

    /// Says that it is there, and fences itself if nobody has answered for the time of a lease.
    fn heartbeat(&mut self) {
        let now = self.around.clock.now();
        if !self.tenure.is_valid(now) {
            while let Some(slot) = self.slots.last() {
                self.remove(slot.number);
            }
            self.building.clear();
        }
        if now < self.next_heartbeat {
            return;
        }
        self.next_heartbeat = now.saturating_add(HEARTBEAT_US);
        let idle = |(partition, known): (&u32, &Building)| JobReport {
            partition: *partition,
            generation: known.generation,
            load: 0,
            buckets: Default::default(),
        };
        let running = self.slots.iter().map(|slot| slot.job.report(slot.number, slot.generation));
        let jobs = running.chain(self.building.iter().map(idle)).collect();
        self.tell(Notice::Heartbeat { worker: WorkerId(self.around.id), sent_at: now, jobs });
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places.get(number as usize).copied().filter(|place| *place < self.slots.len())
    }

    /// Takes what has arrived; waits if there is nothing else to do. False if the run is over.
    fn receive(&mut self) -> bool {
        loop {
            match self.around.mailbox.try_recv() {
                Ok(post) => {
                    if !self.take(post) {
                        return false;
                    }
                }
                Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => break,
            }
        }
        if !self.local.is_empty() {
            return true;
        }
        match self.around.mailbox.recv_timeout(self.idle_time()) {
            Ok(post) => self.take(post),
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => true,
        }
    }

    fn take(&mut self, post: Post) -> bool {
        match post {
            Post::Lane(number, message) => self.local.push_back((number, Event::Lane(message))),
            Post::Answer { partition, uid, event } => {
                // An answer to a job that has ended concerns nobody.
                if self.place(partition).is_some_and(|place| self.slots[place].uid == uid) {
                    self.local.push_back((partition, event));
                }
            }
            Post::Order(order) => self.obey(order),
            Post::Built(assignment, job) => self.begin(*assignment, job),
            Post::Abandon => return false,
        }
        true
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Assign(assignment) => {
                let partition = assignment.partition.number;
                self.remove(partition);
                let generation = assignment.generation;
                self.building.insert(partition, Building { generation, early: Vec::new() });
                let _ = self.around.loader.send(assignment);
            }
            Order::Tell { partition, generation, event } => {
                if let Some(known) = self.building.get_mut(&partition) {
                    if known.generation == generation {
                        known.early.push(event);
                    }
                } else if self.runs(partition, generation) {
                    self.local.push_back((partition, event));
                }
            }
            Order::Drop { partition, generation } => {
                if self.runs(partition, generation) {
                    self.remove(partition);
                } else if self.building.get(&partition).is_some_and(|known| known.generation == generation) {
                    self.building.remove(&partition);
                }
            }
            Order::Layout(layout) => self.rewire(&layout),
            Order::Renewed { sent_at } => {
                let now = self.around.clock.now();
                if self.tenure.is_valid(now) {
                    self.tenure.renew(now, sent_at, LEASE_US);
                } else {
                    // Its jobs are gone: it begins anew.
                    self.tenure = Tenure::new(sent_at, LEASE_US);
                }
            }
        }
    }

    fn runs(&self, partition: u32, generation: Generation) -> bool {
        self.place(partition).is_some_and(|place| self.slots[place].generation == generation)
    }

    fn rewire(&mut self, layout: &Layout) {
        for partition in layout.partitions() {
            let number = partition.number;
            let building = self.building.contains_key(&number);
            if !building && self.place(number).is_none() {
                continue;
            }
            let event = Event::Rewire(Box::new(self.around.plan.wiring(layout, &partition)));
            match self.building.get_mut(&number) {
                Some(known) => known.early.push(event),
                None => self.local.push_back((number, event)),
            }
        }
    }

    /// A job is built; it hears what it was told meanwhile.
    fn begin(&mut self, assignment: Assignment, job: Result<Box<Job>, JobEnd>) {
        let Assignment { partition, generation, layout, .. } = assignment;
        let number = partition.number;
        if self.building.get(&number).is_none_or(|known| known.generation != generation) {
            return;
        }
        let Some(Building { early, .. }) = self.building.remove(&number) else { return };
        let job = match job {
            Ok(job) => *job,
            Err(end) => return self.tell(Notice::Ended { partition: number, generation, end }),
        };
        let source = match &partition.role {
            Role::Source { source, name } => Some((self.around.sources[*source].clone(), name.clone())),
            Role::Keyed { .. } => None,
        };
        let uid = (u64::from(self.around.id) << 40) | self.next_uid;
        self.next_uid += 1;
        let plan = &self.around.plan;
        let callers = plan
            .sinks_of(&partition.role)
            .iter()
            .map(|sink| {
                let identity = SinkIdentity {
                    pipeline: plan.pipeline.name.clone(),
                    sink: plan.pipeline.sinks[*sink as usize].name.clone(),
                    partition: partition.id.clone(),
                    partition_slug: layout.slug(&partition),
                };
                let (worker, identity) = (self.around.id, Arc::new(identity));
                (*sink, Caller { worker, partition: number, uid, identity })
            })
            .collect();
        let slot = Slot::new(number, uid, generation, job, source, callers);
        self.around.board.set(number, self.around.id, &slot.job, slot.progress());
        if self.places.len() <= number as usize {
            self.places.resize(number as usize + 1, usize::MAX);
        }
        self.places[number as usize] = self.slots.len();
        self.slots.push(slot);
        early.into_iter().for_each(|event| self.local.push_back((number, event)));
    }

    fn remove(&mut self, number: u32) {
        let Some(place) = self.place(number) else { return };
        let slot = self.slots.swap_remove(place);
        self.places[number as usize] = usize::MAX;
        if let Some(moved) = self.slots.get(place) {
            self.places[moved.number as usize] = place;
        }
        self.wakes.remove(&(slot.wake, number));
        for sink in slot.callers.keys() {
            let _ = self.around.targets[*sink as usize].send(TargetWork::Forget(slot.uid));
        }
        // What was meant for it is not meant for a successor.
        self.local.retain(|(to, _)| *to != number);
    }

    fn idle_time(&self) -> Duration {
        let now = self.around.clock.now();
        let wake = self.wakes.first().map_or(i64::MAX, |(at, _)| *at).min(self.next_heartbeat);
        let until_wake = u64::try_from(wake.saturating_sub(now)).unwrap_or(0);
        let mut idle = Duration::from_micros(until_wake).min(PUBLISH_EVERY);
        if !self.reads.is_empty() {
            idle = match &self.around.rate {
                Some(rate) => rate.reserve(0).err().unwrap_or_default().min(idle),
                None => Duration::ZERO,
            };
        }
        idle
    }

    fn step(&mut self, number: u32, event: Event) {
        let now = self.around.clock.now();
        let Some(place) = self.place(number) else { return };
        let mut requests = std::mem::take(&mut self.requests);
        self.slots[place].job.handle(now, event, &mut requests);
        let mut gone = false;
        for request in requests.drain(..) {
            gone |= self.carry_out(place, request);
        }
        self.requests = requests;
        let slot = &mut self.slots[place];
        if let Job::Source(job) = &slot.job
            && job.has_ended()
        {
            self.read_to_end(place);
        }
        if gone {
            self.remove(number);
        }
    }

    /// A source partition needs its turn no more.
    fn read_to_end(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        if !std::mem::replace(&mut slot.read_to_end, true) {
            slot.reader = None;
            let number = slot.number;
            self.tell(Notice::ReadToEnd(number));
        }
    }

    /// Answers whether the job has ended and is not needed any more.
    fn carry_out(&mut self, place: usize, request: Request) -> bool {
        let slot = &mut self.slots[place];
        let (number, uid) = (slot.number, slot.uid);
        match request {
            Request::Lane { to, message } => {
                if let Some(message) = self.router.lane(to, message) {
                    self.local.push_back((to, Event::Lane(message)));
                }
            }
            Request::Read { tag, seek, limits } => {
                slot.read = Some(PendingRead { tag, seek, limits });
                self.reads.push_back(number);
            }
            Request::Commit(commit) => {
                let epoch = commit.epoch;
                let (routes, worker) = (self.around.routes.clone(), self.around.id);
                let (board, submitted) = (self.around.board.clone(), Instant::now());
                let done = Box::new(move |outcome| {
                    board.commit_latency().record(submitted.elapsed().as_micros() as u64);
                    let event = Event::Commit { epoch, outcome };
                    routes.post(worker, Post::Answer { partition: number, uid, event });
                });
                self.around.store.submit_commit(commit, done);
            }
            Request::Target { sink, call } => {
                if let Some(caller) = slot.callers.get(&sink).cloned() {
                    let _ = self.around.targets[sink as usize].send(TargetWork::Call { caller, sink, call });
                }
            }
            Request::Wake(at) => {
                if slot.wake != at {
                    self.wakes.remove(&(slot.wake, number));
                    slot.wake = at;
                    if at < i64::MAX {
                        self.wakes.insert((at, number));
                    }
                }
            }
            Request::End(end) => return self.ended(place, end),
        }
        false
    }

    fn ended(&mut self, place: usize, end: JobEnd) -> bool {
        let slot = &mut self.slots[place];
        slot.reader = None;
        slot.read = None;
        self.wakes.remove(&(slot.wake, slot.number));
        slot.wake = i64::MAX;
        let (partition, generation) = (slot.number, slot.generation);
        self.around.board.set(partition, self.around.id, &slot.job, slot.progress());
        // A job whose partition an earlier run had read to its end never reads: its turn is over too.
        if slot.source.is_some() {
            self.read_to_end(place);
        }
        let stays = end == JobEnd::Completed;
        self.tell(Notice::Ended { partition, generation, end });
        !stays
    }

    fn due_reads(&mut self) {
        for _ in 0..self.reads.len() {
            let Some(number) = self.reads.pop_front() else { return };
            let Some(place) = self.place(number) else { continue };
            let Some(mut read) = self.slots[place].read.take() else { continue };
            if let Some(rate) = &self.around.rate {
                read.limits.rows = read.limits.rows.min(rate.rows_per_read());
                if rate.reserve(read.limits.rows).is_err() {
                    self.slots[place].read = Some(read);
                    // It is first again.
                    self.reads.push_front(number);
                    return;
                }
            }
            let answer = self.slots[place].read_now(&read);
            if let Some(rate) = &self.around.rate {
                rate.give_back(read.limits.rows.saturating_sub(super::slot::rows(&answer)));
            }
            self.local.push_back((number, Event::Read { tag: read.tag, read: answer }));
        }
    }

    fn due_ticks(&mut self) {
        let now = self.around.clock.now();
        while let Some((at, number)) = self.wakes.first().copied().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, number));
            if let Some(place) = self.place(number) {
                self.slots[place].wake = i64::MAX;
                self.local.push_back((number, Event::Tick));
            }
        }
    }

    fn publish(&mut self, last: bool) {
        if !last && self.published.elapsed() < PUBLISH_EVERY {
            return;
        }
        self.published = Instant::now();
        for slot in &self.slots {
            self.around.board.set(slot.number, self.around.id, &slot.job, slot.progress());
        }
    }
}
