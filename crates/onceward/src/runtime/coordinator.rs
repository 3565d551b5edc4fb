//! One thread that drives the controller: it hands it what happens and carries out what it asks for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use onceward_engine::controller::{Action, Command, Controller, ControllerEnd, Notice};
use onceward_engine::recut::PartitionRows;
use onceward_protocol::PartitionId;
use onceward_protocol::lease::WorkerId;
use onceward_protocol::state::{Demand, PipelineState};
use onceward_store::EmbeddedStore;

use super::board::Board;
use super::clock::Clock;
use super::routes::Routes;
use super::targets::TargetWork;
use super::{Heard, Order, Post, RunEnd};
use crate::error::RunError;
use crate::prepare::{partition_rows, store_failed};

/// The id of commands that nobody waits for.
const UNASKED: u64 = 0;

/// The coordinating thread.
pub(crate) struct Coordinator {
    pub(crate) controller: Controller,
    pub(crate) store: EmbeddedStore,
    pub(crate) routes: Arc<Routes>,
    pub(crate) targets: Vec<Sender<TargetWork>>,
    pub(crate) inbox: Receiver<Heard>,
    pub(crate) outbox: Sender<Heard>,
    pub(crate) board: Arc<Board>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) wake: i64,
    /// Who waits for an answer, by the command's id.
    pub(crate) asking: Vec<(u64, Sender<Result<String, String>>)>,
    pub(crate) next_ask: u64,
    pub(crate) workers_gone: u32,
    /// A clean stop was asked for while jobs were ending for a pause.
    pub(crate) ends_when_paused: bool,
}

impl Coordinator {
    pub(crate) fn run(
        mut self,
        workers: Vec<JoinHandle<()>>,
        target_threads: Vec<JoinHandle<()>>,
    ) -> Result<RunEnd, RunError> {
        let result = self.listen();
        for worker in 0..self.routes.workers() {
            self.routes.post(worker, Post::Abandon);
        }
        self.targets.clear();
        for thread in workers.into_iter().chain(target_threads) {
            let _ = thread.join();
        }
        let failure = self.store.handle().failure();
        self.store.close();
        match (result, failure) {
            (Ok(_), Some(reason)) => Err(RunError::StoreFailed(reason)),
            (result, _) => result,
        }
    }

    fn listen(&mut self) -> Result<RunEnd, RunError> {
        let mut heard = VecDeque::new();
        loop {
            match self.receive(&mut heard) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => heard.push_back(Heard::Notice(Notice::Tick)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RunError::Thread("all threads are gone".to_owned()));
                }
            }
            while let Some(next) = heard.pop_front() {
                if let Some(end) = self.take(next)? {
                    return Ok(end);
                }
            }
        }
    }

    /// Everything that has come, heartbeats first: who was heard of in time must not be taken for lost because something
    /// else took its time.
    fn receive(&self, heard: &mut VecDeque<Heard>) -> Result<(), RecvTimeoutError> {
        let wait = u64::try_from(self.wake.saturating_sub(self.clock.now())).unwrap_or(0);
        let first = self.inbox.recv_timeout(Duration::from_micros(wait))?;
        let mut others = Vec::new();
        for next in std::iter::once(first).chain(self.inbox.try_iter()) {
            match next {
                beat @ Heard::Notice(Notice::Heartbeat { .. }) => heard.push_back(beat),
                other => others.push(other),
            }
        }
        heard.extend(others);
        Ok(())
    }

    fn take(&mut self, heard: Heard) -> Result<Option<RunEnd>, RunError> {
        let notice = match heard {
            Heard::Notice(notice) => notice,
            Heard::Ask(command, answer) => {
                self.next_ask += 1;
                self.asking.push((self.next_ask, answer));
                Notice::Asked { id: self.next_ask, command }
            }
            // Nothing runs that would have to end; it stays paused for the next run.
            Heard::Stop if self.controller.state() == PipelineState::Paused => {
                return Ok(Some(RunEnd::Paused));
            }
            // The pause holds, and the process ends with it.
            Heard::Stop if self.controller.state() == PipelineState::Pausing => {
                self.ends_when_paused = true;
                return Ok(None);
            }
            Heard::Stop => {
                Notice::Asked { id: UNASKED, command: Command::Demand(Demand::Stop { drain: false }) }
            }
            Heard::Abandon => return Err(RunError::StoppedEarly),
            Heard::WorkerGone(worker, what) => {
                self.board.log(self.clock.now(), what.clone());
                self.workers_gone += 1;
                if self.workers_gone == self.routes.workers() {
                    return Err(RunError::Thread(format!(
                        "every worker has ended, the last because: {what}"
                    )));
                }
                Notice::WorkerGone(WorkerId(worker))
            }
            Heard::ThreadGone(what) => return Err(RunError::Thread(what)),
        };
        let mut actions = Vec::new();
        self.controller.handle(self.clock.now(), notice, &mut actions);
        for action in actions {
            if let Some(end) = self.carry_out(action)? {
                return Ok(Some(end));
            }
        }
        let state = self.controller.state();
        self.board.set_state(state);
        Ok((self.ends_when_paused && state == PipelineState::Paused).then_some(RunEnd::Paused))
    }

    fn order(&self, worker: WorkerId, order: Order) {
        self.routes.post(worker.0, Post::Order(order));
    }

    fn carry_out(&mut self, action: Action) -> Result<Option<RunEnd>, RunError> {
        match action {
            Action::Transact(operations) => {
                let outbox = self.outbox.clone();
                let done = Box::new(move |outcome| {
                    let _ = outbox.send(Heard::Notice(Notice::Transacted(outcome)));
                });
                self.store.handle().submit_transact(operations, done);
            }
            Action::Load(partitions) => self.load(partitions)?,
            Action::Settle(number) => self.settle(number),
            Action::Assign { worker, assignment } => {
                self.routes.set(assignment.partition.number, worker.0);
                self.order(worker, Order::Assign(Box::new(assignment)));
            }
            Action::Tell { worker, partition, generation, event } => {
                self.order(worker, Order::Tell { partition, generation, event });
            }
            Action::Drop { worker, partition, generation } => {
                self.order(worker, Order::Drop { partition, generation });
            }
            Action::Renewed { worker, sent_at } => self.order(worker, Order::Renewed { sent_at }),
            Action::Layout(layout) => {
                self.board.set_layout(layout.clone());
                for worker in 0..self.routes.workers() {
                    self.order(WorkerId(worker), Order::Layout(layout.clone()));
                }
            }
            Action::Wake(at) => self.wake = at,
            Action::Answer { id, answer } => {
                if let Some(index) = self.asking.iter().position(|(asked, _)| *asked == id) {
                    let _ = self.asking.swap_remove(index).1.send(answer);
                }
            }
            Action::Log(happening) => self.board.log(self.clock.now(), happening.to_string()),
            Action::End(end) => {
                self.board.set_state(self.controller.layout().state);
                return self.end(end).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads in a thread of its own: the leases of everything else are renewed meanwhile.
    fn load(&self, partitions: Vec<PartitionId>) -> Result<(), RunError> {
        let (store, outbox) = (self.store.handle(), self.outbox.clone());
        std::thread::Builder::new()
            .name("recut".to_owned())
            .spawn(move || {
                let rows: Result<Vec<PartitionRows>, RunError> =
                    partitions.iter().map(|partition| partition_rows(&store, partition)).collect();
                let _ = outbox.send(match rows {
                    Ok(rows) => Heard::Notice(Notice::Loaded(rows)),
                    Err(error) => Heard::ThreadGone(error.to_string()),
                });
            })
            .map(drop)
            .map_err(|error| RunError::Thread(format!("cannot start a thread: {error}")))
    }

    /// Answers when every call that was handed to a target before has ended (QUIET-PAUSE), whoever asked for it.
    fn settle(&self, number: u64) {
        let last = Arc::new(LastOf(self.outbox.clone(), number));
        for target in &self.targets {
            let _ = target.send(TargetWork::Settle(last.clone()));
        }
    }

    fn end(&self, end: ControllerEnd) -> Result<RunEnd, RunError> {
        match end {
            ControllerEnd::Completed => Ok(RunEnd::Completed),
            ControllerEnd::Stopped => Ok(RunEnd::Stopped),
            ControllerEnd::Failed(error) => Err(RunError::Engine(error)),
            ControllerEnd::Fenced { partition, reason } => Err(RunError::Fenced { partition, reason }),
            ControllerEnd::StoreFailed => Err(store_failed(&self.store.handle())),
        }
    }
}

/// Says that everything is settled when the last holder lets go of it.
pub(crate) struct LastOf(Sender<Heard>, u64);

impl Drop for LastOf {
    fn drop(&mut self) {
        let _ = self.0.send(Heard::Notice(Notice::Settled(self.1)));
    }
}
