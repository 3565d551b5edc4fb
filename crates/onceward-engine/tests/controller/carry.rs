//! How the driver carries things out: what the controller asks for, what jobs ask for, what the world answers.

use onceward_connector::{Read, ReadLimits, Record, RecordBatch};
use onceward_engine::controller::{Action, Assignment, Notice};
use onceward_engine::recut::PartitionRows;
use onceward_engine::{Event, Job, Request, Stored, TargetCall};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{CommitOutcome, Generation, Mutants, PartitionId, Position};
use onceward_store::disk::FaultDisk;
use onceward_store::{EmbeddedCore, Operation, Store, Ticket};

use crate::world::{Pending, Seen, TestJob, World};

impl World {
    pub(crate) fn carry_out(&mut self, pending: Pending) {
        match pending {
            Pending::Action(action) => self.act(action),
            Pending::Notice(notice) => self.hear(notice),
            Pending::Lane { to, message } => {
                // It reaches whoever believes to be that partition's job.
                let jobs = self.jobs.iter().filter(|job| job.partition.number == to);
                let jobs: Vec<u64> = jobs.map(|job| job.uid).collect();
                jobs.into_iter().for_each(|uid| self.handle(uid, Event::Lane(message.clone())));
            }
            Pending::Read { uid, tag, seek, limits, partition } => {
                self.seen.push(Seen::Read { partition, seek: seek.as_ref().map(|point| point.position) });
                self.read(uid, tag, seek, limits);
            }
            Pending::Commit { uid, commit, .. } => {
                let epoch = commit.epoch;
                let Some(outcome) = self.submit(|store| store.commit(commit)) else { return };
                self.seen.push(Seen::Judged(outcome));
                self.push(Pending::Verdict { uid, epoch, outcome });
            }
            Pending::Verdict { uid, epoch, outcome } => self.handle(uid, Event::Commit { epoch, outcome }),
            Pending::Call { uid, partition, sink, call } => self.call(uid, partition, sink, &call),
        }
    }
    /// Submits to the store and waits for its word; nothing if the power went.
    fn submit(
        &mut self,
        submit: impl FnOnce(&mut EmbeddedCore<FaultDisk>) -> Ticket,
    ) -> Option<CommitOutcome> {
        let store = self.store.as_mut().unwrap();
        submit(store);
        let mut outcomes = Vec::new();
        let flushed = store.flush(&mut outcomes);
        if self.disk.crashed().is_some() {
            return None;
        }
        flushed.unwrap();
        let maintained = store.maintain();
        if self.disk.crashed().is_some() {
            return None;
        }
        maintained.unwrap();
        Some(outcomes[0].outcome)
    }

    /// A transaction that some controller asks for.
    pub fn transact(&mut self, operations: Vec<Operation>) -> CommitOutcome {
        self.submit(|store| store.transact(operations)).unwrap()
    }
    /// The controller takes a notice.
    pub fn hear(&mut self, notice: Notice) {
        let mut actions = Vec::new();
        let Some(controller) = &mut self.controller else { return };
        controller.handle(self.now, notice, &mut actions);
        for action in actions {
            match action {
                Action::Wake(at) => self.controller_wake = at,
                Action::Log(happening) => {
                    self.check_happening(&happening);
                    self.seen.push(Seen::Log(happening));
                }
                Action::Answer { id, answer } => drop(self.answers.insert(id, answer)),
                Action::Renewed { .. } => {}
                Action::End(end) => {
                    self.check_end(&end);
                    self.end = Some(end);
                    self.controller_wake = i64::MAX;
                }
                action => {
                    self.check_action(&action);
                    self.push(Pending::Action(action));
                }
            }
        }
    }
    fn act(&mut self, action: Action) {
        match action {
            Action::Transact(operations) => {
                self.seen.push(Seen::Transact);
                if let Some(outcome) = self.submit(|store| store.transact(operations)) {
                    self.push(Pending::Notice(Notice::Transacted(outcome)));
                }
            }
            Action::Load(partitions) => {
                let rows = partitions.iter().map(|id| self.rows_of(id)).collect();
                self.seen.push(Seen::Load);
                self.push(Pending::Notice(Notice::Loaded(rows)));
            }
            Action::Settle(number) => self.push(Pending::Notice(Notice::Settled(number))),
            Action::Assign { worker, assignment } => self.assign(worker, assignment),
            Action::Tell { worker, partition, generation, event } => {
                let said = format!("{event:?}");
                self.seen.push(Seen::Tell { partition, event: said });
                if let Some(uid) = self.find(worker, partition, generation) {
                    self.handle(uid, event);
                }
            }
            Action::Drop { worker, partition, generation } => {
                self.seen.push(Seen::Drop { worker, partition, generation });
                if let Some(uid) = self.find(worker, partition, generation) {
                    self.jobs.retain(|job| job.uid != uid);
                }
            }
            Action::Layout(layout) => {
                for partition in layout.partitions() {
                    let wiring = self.plan.wiring(&layout, &partition);
                    let mine = |job: &&TestJob| job.partition.number == partition.number;
                    let jobs = self.jobs.iter().filter(mine).filter(|job| self.is_reachable(job.worker));
                    let jobs: Vec<u64> = jobs.map(|job| job.uid).collect();
                    for uid in jobs {
                        self.handle(uid, Event::Rewire(Box::new(wiring.clone())));
                    }
                }
            }
            Action::Wake(_)
            | Action::Log(_)
            | Action::Renewed { .. }
            | Action::Answer { .. }
            | Action::End(_) => {}
        }
    }
    pub fn rows_of(&self, id: &PartitionId) -> PartitionRows {
        let store = self.store.as_ref().unwrap();
        let head = store.head(id).unwrap();
        PartitionRows::read(head, |table, visit| store.scan(id, table, visit)).unwrap()
    }
    fn find(&self, worker: WorkerId, partition: u32, generation: Generation) -> Option<u64> {
        let mine = |job: &&TestJob| {
            job.worker == worker && job.partition.number == partition && job.generation == generation
        };
        self.jobs.iter().filter(|_| self.is_reachable(worker)).find(mine).map(|job| job.uid)
    }
    fn assign(&mut self, worker: WorkerId, assignment: Assignment) {
        let Assignment { partition, generation, layout, seed } = assignment;
        let number = partition.number;
        self.seen.push(Seen::Assign { worker, partition: number, generation });
        self.former.push((partition.id.clone(), generation));
        if !self.is_reachable(worker) {
            return;
        }
        let stored = Stored::load(self.store.as_ref().unwrap(), &partition.id).unwrap();
        let job = self.plan.job(&layout, &partition, generation, stored, seed, Mutants::NONE).unwrap();
        let uid = self.next_uid;
        self.next_uid += 1;
        self.jobs.push(TestJob {
            uid,
            worker,
            partition,
            generation,
            job,
            wake: i64::MAX,
            next_row: 0,
            end: None,
            said_end: false,
            claimed: 0,
        });
    }
    pub fn job(&mut self, uid: u64) -> Option<&mut TestJob> {
        self.jobs.iter_mut().find(|job| job.uid == uid)
    }

    /// Steps a job and takes what it asks for.
    pub(crate) fn handle(&mut self, uid: u64, event: Event) {
        let now = self.now;
        let Some(known) = self.job(uid) else { return };
        let mut requests = Vec::new();
        known.job.handle(now, event, &mut requests);
        let (partition, generation) = (known.partition.number, known.generation);
        for request in requests {
            self.take_request(uid, partition, generation, request);
        }
        let Some(known) = self.jobs.iter().position(|job| job.uid == uid) else { return };
        if let Job::Source(source) = &self.jobs[known].job
            && source.has_ended()
            && !self.jobs[known].said_end
            && self.is_reachable(self.jobs[known].worker)
        {
            self.jobs[known].said_end = true;
            self.push(Pending::Notice(Notice::ReadToEnd(partition)));
        }
    }
    fn take_request(&mut self, uid: u64, partition: u32, generation: Generation, request: Request) {
        match request {
            Request::Lane { to, message } => self.push(Pending::Lane { to, message }),
            Request::Read { tag, seek, limits } => {
                self.push(Pending::Read { uid, partition, tag, seek, limits });
            }
            Request::Commit(commit) => self.push(Pending::Commit { uid, partition, commit }),
            Request::Target { sink, call } => self.push(Pending::Call { uid, partition, sink, call }),
            Request::Wake(at) => self.job(uid).unwrap().wake = at,
            Request::End(end) => {
                let known = self.job(uid).unwrap();
                known.end = Some(end.clone());
                let worker = known.worker;
                self.seen.push(Seen::JobEnded { partition, end: end.clone() });
                if self.is_reachable(worker) {
                    self.push(Pending::Notice(Notice::Ended { partition, generation, end }));
                }
            }
        }
    }
    fn read(&mut self, uid: u64, tag: u32, seek: Option<ResumePoint>, limits: ReadLimits) {
        let most = self.read_rows.min(limits.rows);
        let end = if self.bounded { Read::End } else { Read::Idle };
        let Some(known) = self.jobs.iter_mut().find(|job| job.uid == uid) else { return };
        let rows = self.input.get(&known.partition.number).map_or(&[][..], Vec::as_slice);
        if let Some(point) = seek {
            known.next_row = point.position.major as usize;
        }
        let first = known.next_row;
        let until = rows.len().min(first + most);
        let read = if first >= rows.len() {
            end
        } else {
            let (mut bytes, mut records) = (Vec::new(), Vec::new());
            for (offset, row) in rows[first..until].iter().enumerate() {
                let position = Position::at((first + offset + 1) as u64);
                records.push(Record { start: bytes.len() as u32, len: row.len() as u32, position });
                bytes.extend_from_slice(row);
            }
            known.next_row = until;
            Read::Batch { batch: RecordBatch::new(bytes, records), token: until.to_string().into_bytes() }
        };
        self.handle(uid, Event::Read { tag, read: Ok(read) });
    }
    fn call(&mut self, uid: u64, partition: u32, sink: u32, call: &TargetCall) {
        self.seen.push(Seen::Called { partition });
        let target = self.targets.entry((sink, partition)).or_default();
        let before = target.rows.len();
        let fault = self.faults.iter().position(|(of, _)| *of == partition);
        let answer = match fault.and_then(|index| self.faults.remove(index)) {
            Some((_, error)) => Err(error),
            None => {
                let unused = matches!(
                    call,
                    TargetCall::SequenceWrite { .. }
                        | TargetCall::TokenWrite { .. }
                        | TargetCall::PlainWrite(_)
                );
                assert!(!unused, "no sink here makes this call: {call:?}");
                target.apply(call)
            }
        };
        let new = target.rows[before..].iter().map(|row| (sink, partition, row.clone()));
        self.arrived.extend(new);
        self.handle(uid, Event::Target { sink, answer });
    }
}
