//! The second model: a partition's outbox, the sink's cursor in the store, and a target with a marker.
//!
//! Calls to the target are a set: any of them may be applied next, with or without an answer, also
//! long after the job that made it has opened again or is gone. Commits are answered at once; what
//! becomes of late ones is the first model's matter.

use arrayvec::ArrayVec;
use onceward_protocol::{
    Branch, Cursor, CursorPhase, Fence, Generation, Head, Marker, Mutants, OpenDecision, PartitionHead,
    Position, StopReason,
};

use crate::search::Model;

/// A rule that can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The marker is read before the fence is taken.
    ReadAfterFence,
    /// The generation is not proved between fence and marker.
    ProveAfterFence,
    /// Work resumes at `finished`, whatever the marker says.
    ResumeAtMarker,
    /// A marker above `intended` is trusted.
    NotAboveIntended,
    /// A marker below `marked` is trusted.
    NotBelowMarked,
    /// The marker's lower bound is `finished`, for want of `marked`.
    MarkedIsKept,
    /// `intended` is raised when a row is made, not when the sink is open.
    IntendedWhenOpen,
    /// An absent marker is read as "nothing there" also when the sink was open before.
    AbsentOnlyWhileOpening,
}

/// What a write compares in the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// Marker and fence (MARKER-CAS).
    Both,
    /// The fence alone: a target that cannot compare, but makes older writers fail.
    Fence,
    /// The marker alone.
    Position,
    /// Nothing (MARKER-CAS off).
    Nothing,
}

/// What goes wrong outside, once, at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The marker disappears, the rows stay.
    MarkerLost,
    /// The target is restored from an earlier copy of itself.
    TargetGoesBack,
    /// The store is restored from an earlier copy of itself: a new branch.
    StoreGoesBack,
}

/// How large the model is.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rows made in all; row [`FILTERED`] is not for the target.
    pub rows: usize,
    /// Jobs, one after the other.
    pub jobs: usize,
    /// Calls in flight at once, at most [`CALLS`].
    pub calls: usize,
    /// Calls whose answer never comes.
    pub timeouts: u8,
}

/// The model with a kind of target, at most one fault and at most one rule switched off.
pub struct Sink {
    pub bounds: Bounds,
    pub compare: Compare,
    pub fault: Option<Fault>,
    pub without: Option<Rule>,
}

const FILTERED: u8 = 2;
const ROWS: usize = 3;
const JOBS: usize = 2;
const CALLS: usize = 3;

/// A row: its position, and the branch that made it.
type Row = (u8, u8);

/// [`Cursor`] in small numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Progress {
    /// 0 new, 1 opening, 2 open.
    phase: u8,
    finished: u8,
    marked: u8,
    intended: u8,
}

/// Where a job stands with the sink, each with its fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Closed,
    Fencing(u8),
    ToProve(u8),
    Reading(u8),
    Creating(u8),
    ToOpen(u8),
    Open(u8),
    Writing(u8, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Life {
    Running,
    Ended,
    Stopped,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Job {
    life: Life,
    branch: u8,
    /// Whether its last commit, or what it loaded, is still the partition's head.
    on_head: bool,
    made: ArrayVec<u8, ROWS>,
    cursor: Progress,
    step: Step,
    /// The marker's position as this job knows it.
    marker: u8,
    /// What was read before the fence (only with that rule off).
    early: Option<Option<u8>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct Store {
    granted: u8,
    committed: u8,
    /// The branch of each row made.
    made: ArrayVec<u8, ROWS>,
    cursor: Progress,
}

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct Target {
    fence: u8,
    marker: Option<u8>,
    rows: ArrayVec<Row, { ROWS + 1 }>,
}

/// A call to the target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Call {
    TakeFence { fence: u8 },
    CreateMarker { fence: u8, position: u8 },
    Write { fence: u8, expected: u8, row: Row },
}

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct State {
    store: Store,
    target: Target,
    jobs: ArrayVec<Job, JOBS>,
    /// Calls in flight with the job that waits for each.
    calls: ArrayVec<(Call, u8), CALLS>,
    timeouts: u8,
    branch: u8,
    saved_store: Option<Store>,
    saved_target: Option<Target>,
    faulted: bool,
}

/// One step.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "the fields are read by people, in traces")]
pub enum Action {
    Grant(u8),
    Crash(u8),
    Open { job: u8, fence: u8 },
    ReadMarkerEarly(u8),
    ReadMarker { job: u8, marker: Option<u8>, decision: OpenDecision },
    Commit { job: u8, with_row: bool, accepted: bool },
    Skip { job: u8, row: u8 },
    StartWrite { job: u8, row: u8 },
    TimeOut(u8),
    TargetApplies { call: Call, job: u8, answered: bool },
    TargetRefuses { call: Call, job: u8, answered: bool },
    LoseMarker,
    SaveTarget,
    RestoreTarget,
    SaveStore,
    RestoreStore,
}

fn generation(number: u8) -> Generation {
    Generation { number: number.into(), nonce: 100 + u64::from(number), branch: Branch(0) }
}
fn position(number: u8) -> Position {
    Position::at(number.into())
}

impl Progress {
    fn cursor(self) -> Cursor {
        Cursor {
            phase: match self.phase {
                0 => CursorPhase::New,
                1 => CursorPhase::Opening,
                _ => CursorPhase::Open,
            },
            finished: position(self.finished),
            marked: position(self.marked),
            intended: position(self.intended),
            fence: None,
        }
    }
}

impl Job {
    fn ended(life: Life) -> Self {
        Job {
            life,
            branch: 0,
            on_head: false,
            made: ArrayVec::new(),
            cursor: Progress::default(),
            step: Step::Closed,
            marker: 0,
            early: None,
        }
    }
    fn load(store: &Store, branch: u8) -> Self {
        Job {
            branch,
            on_head: true,
            made: store.made.clone(),
            cursor: store.cursor,
            ..Job::ended(Life::Running)
        }
    }
    fn fence(&self) -> Option<u8> {
        match self.step {
            Step::Closed => None,
            Step::Fencing(fence)
            | Step::ToProve(fence)
            | Step::Reading(fence)
            | Step::Creating(fence)
            | Step::ToOpen(fence)
            | Step::Open(fence)
            | Step::Writing(fence, _) => Some(fence),
        }
    }
    fn waits(&self) -> bool {
        matches!(self.step, Step::Fencing(_) | Step::Creating(_) | Step::Writing(..))
    }
    fn opened(&self, fence: u8) -> Step {
        if self.cursor.phase == 2 { Step::Open(fence) } else { Step::ToOpen(fence) }
    }
    fn finish(&mut self, row: u8) {
        self.cursor.finished = self.cursor.finished.max(row);
    }
}

impl Sink {
    fn off(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }
    /// The job is told that it is not the target's writer. The last one stands for its own successor.
    fn fenced(&self, job: &mut Job, number: u8, store: &Store, branch: u8) {
        *job = if number as usize == self.bounds.jobs {
            Job::load(store, branch)
        } else {
            Job::ended(Life::Ended)
        };
    }
    /// A fence that nothing in sight remembers: as good as one never drawn before.
    fn fresh(state: &State) -> u8 {
        let calls = state.calls.iter().map(|(call, _)| match call {
            Call::TakeFence { fence } | Call::CreateMarker { fence, .. } | Call::Write { fence, .. } => {
                *fence
            }
        });
        let saved = state.saved_target.as_ref().map(|target| target.fence);
        let held = state.jobs.iter().filter_map(Job::fence).chain(saved).chain([state.target.fence]);
        let used: ArrayVec<u8, { CALLS + JOBS + 2 }> = calls.chain(held).collect();
        (1..).find(|fence| !used.contains(fence)).unwrap_or(u8::MAX)
    }

    fn commit(&self, state: &State, index: usize, with_row: bool) -> (Action, State) {
        let mut next = state.clone();
        let number = index as u8 + 1;
        let mut job = next.jobs[index].clone();
        if with_row {
            job.made.push(job.branch);
        }
        if matches!(job.step, Step::ToOpen(_) | Step::Open(_) | Step::Writing(..))
            || self.off(Rule::IntendedWhenOpen)
        {
            job.cursor.intended = job.cursor.intended.max(job.made.len() as u8);
        }
        match job.step {
            Step::ToProve(fence) => {
                job.cursor.phase = job.cursor.phase.max(1);
                job.step = Step::Reading(fence);
            }
            Step::ToOpen(fence) => {
                job.cursor.phase = 2;
                job.step = Step::Open(fence);
            }
            _ => {}
        }
        let stored = Head { generation: generation(state.store.committed), epoch: 10 };
        let partition = PartitionHead {
            granted: (state.store.granted != 0).then(|| generation(state.store.granted)),
            last_number: state.jobs.len() as u64,
            head: Some(stored),
        };
        let predecessor = if job.on_head { stored } else { Head { epoch: 9, ..stored } };
        let permit = partition.permit(generation(number), 11, Some(predecessor), Mutants::NONE);
        let accepted = permit.is_ok();
        if accepted {
            next.jobs.iter_mut().for_each(|job| job.on_head = false);
            job.on_head = true;
            next.store.committed = number;
            next.store.made = job.made.clone();
            next.store.cursor = job.cursor;
            next.jobs[index] = job;
        } else {
            next.jobs[index] = Job::ended(Life::Ended);
        }
        (Action::Commit { job: number, with_row, accepted }, next)
    }

    fn decide(&self, job: &Job, marker: Option<u8>, held: u8, fence: u8) -> OpenDecision {
        let mut cursor = job.cursor.cursor();
        if self.off(Rule::MarkedIsKept) {
            cursor.marked = cursor.finished;
        }
        let marker = marker.map(|at| Marker { position: position(at), fence: Fence(held.into()) });
        match cursor.decide(marker, Fence(fence.into())) {
            OpenDecision::Resume(_) if self.off(Rule::ResumeAtMarker) => {
                OpenDecision::Resume(cursor.finished)
            }
            OpenDecision::Stop(StopReason::MarkerAhead { marker, .. })
                if self.off(Rule::NotAboveIntended) =>
            {
                OpenDecision::Resume(marker)
            }
            OpenDecision::Stop(StopReason::MarkerBehind { .. }) if self.off(Rule::NotBelowMarked) => {
                OpenDecision::Resume(cursor.finished)
            }
            OpenDecision::Stop(StopReason::MarkerMissing) if self.off(Rule::AbsentOnlyWhileOpening) => {
                OpenDecision::Create
            }
            decision => decision,
        }
    }

    fn read(&self, state: &State, index: usize, fence: u8) -> (Action, State) {
        let mut next = state.clone();
        let number = index as u8 + 1;
        let job = &mut next.jobs[index];
        // Read before the fence, the marker still carried an older one: that cannot be compared.
        let (marker, held) = match job.early.take() {
            Some(early) => (early, fence),
            None => (state.target.marker, state.target.fence),
        };
        let decision = self.decide(job, marker, held, fence);
        match decision {
            OpenDecision::Resume(from) => {
                let from = from.major as u8;
                job.marker = if self.off(Rule::ResumeAtMarker) { from } else { marker.unwrap_or(0) };
                job.cursor.marked = job.cursor.marked.max(job.marker);
                job.finish(from);
                job.step = job.opened(fence);
            }
            OpenDecision::Create => {
                job.step = Step::Creating(fence);
                let call = Call::CreateMarker { fence, position: job.cursor.finished };
                next.calls.push((call, number));
                next.calls.sort_unstable();
            }
            OpenDecision::Fenced => self.fenced(job, number, &state.store, state.branch),
            OpenDecision::Stop(_) => *job = Job::ended(Life::Stopped),
        }
        (Action::ReadMarker { job: number, marker, decision }, next)
    }

    fn job(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.jobs[index];
        let number = index as u8 + 1;
        if job.life != Life::Running {
            return;
        }
        let with = |change: &dyn Fn(&mut State, usize)| {
            let mut next = state.clone();
            change(&mut next, index);
            next
        };
        // A crash shows only once somebody takes over.
        if index + 1 < state.jobs.len() {
            out.push((
                Action::Crash(number),
                with(&|next, index| next.jobs[index] = Job::ended(Life::Ended)),
            ));
        }
        let owes = job.made.len() as u8 > job.cursor.finished;
        let can_call = state.calls.len() < self.bounds.calls;
        let proof = matches!(job.step, Step::ToProve(_) | Step::ToOpen(_));
        let open = matches!(job.step, Step::Open(_) | Step::Writing(..));
        let dirty = job.on_head && job.cursor != state.store.cursor
            || open && job.cursor.intended < job.made.len() as u8;
        if proof || dirty || !job.on_head {
            out.push(self.commit(state, index, false));
        }
        if job.made.len() < self.bounds.rows {
            out.push(self.commit(state, index, true));
        }
        let after = job.cursor.finished + 1;
        if owes && after == FILTERED {
            out.push((
                Action::Skip { job: number, row: after },
                with(&|next, index| next.jobs[index].finish(after)),
            ));
        }
        if job.waits() && state.timeouts < self.bounds.timeouts {
            let next = with(&|next, index| {
                next.timeouts += 1;
                next.jobs[index].step = Step::Closed;
            });
            out.push((Action::TimeOut(number), next));
        }
        match job.step {
            Step::Closed if owes && can_call => {
                if self.off(Rule::ReadAfterFence) && job.early.is_none() {
                    let marker = state.target.marker;
                    out.push((
                        Action::ReadMarkerEarly(number),
                        with(&|next, index| next.jobs[index].early = Some(marker)),
                    ));
                    return;
                }
                let fence = Sink::fresh(state);
                let next = with(&|next, index| {
                    next.jobs[index].step = Step::Fencing(fence);
                    next.calls.push((Call::TakeFence { fence }, number));
                    next.calls.sort_unstable();
                });
                out.push((Action::Open { job: number, fence }, next));
            }
            Step::Reading(fence) if can_call => out.push(self.read(state, index, fence)),
            Step::ToProve(fence) if self.off(Rule::ProveAfterFence) && job.cursor.phase > 0 && can_call => {
                out.push(self.read(state, index, fence));
            }
            Step::Open(fence) if can_call => {
                let from = job.marker.max(job.cursor.finished);
                let row = (from + 1..=job.cursor.intended).find(|row| *row != FILTERED);
                if let Some(row) = row {
                    let call =
                        Call::Write { fence, expected: job.marker, row: (row, job.made[row as usize - 1]) };
                    let next = with(&|next, index| {
                        next.jobs[index].step = Step::Writing(fence, row);
                        next.calls.push((call, number));
                        next.calls.sort_unstable();
                    });
                    out.push((Action::StartWrite { job: number, row }, next));
                }
            }
            _ => {}
        }
    }

    /// Applies a call to the target: whether it was accepted.
    fn apply(&self, target: &mut Target, call: Call) -> bool {
        match call {
            Call::TakeFence { fence } => {
                target.fence = fence;
                true
            }
            Call::CreateMarker { fence, position } => {
                let held = target.fence == fence;
                if held && target.marker.is_none() {
                    target.marker = Some(position);
                }
                held
            }
            Call::Write { fence, expected, row } => {
                let held = target.fence == fence;
                let as_expected = target.marker == Some(expected);
                let accepted = match self.compare {
                    Compare::Both => held && as_expected,
                    Compare::Fence => held,
                    Compare::Position => as_expected,
                    Compare::Nothing => true,
                };
                if accepted {
                    target.marker = Some(row.0);
                    // Only without the rules is there more than fits; one too many is enough to see it.
                    let _ = target.rows.try_push(row);
                }
                accepted
            }
        }
    }

    fn calls(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let (call, number) = state.calls[index];
        let mut applied = state.clone();
        applied.calls.remove(index);
        let accepted = self.apply(&mut applied.target, call);
        let job = &state.jobs[number as usize - 1];
        let waits = match call {
            Call::TakeFence { fence } => job.step == Step::Fencing(fence),
            Call::CreateMarker { fence, .. } => job.step == Step::Creating(fence),
            Call::Write { fence, row, .. } => job.step == Step::Writing(fence, row.0),
        };
        let action = |answered| {
            if accepted {
                Action::TargetApplies { call, job: number, answered }
            } else {
                Action::TargetRefuses { call, job: number, answered }
            }
        };
        if !waits {
            out.push((action(false), applied));
            return;
        }
        // The answer is lost: the job gives up at once, which is when it would have given up anyway.
        if state.timeouts < self.bounds.timeouts {
            let mut next = applied.clone();
            next.timeouts += 1;
            next.jobs[number as usize - 1].step = Step::Closed;
            out.push((action(false), next));
        }
        let State { jobs, store, branch, .. } = &mut applied;
        let job = &mut jobs[number as usize - 1];
        match call {
            _ if !accepted => self.fenced(job, number, store, *branch),
            Call::TakeFence { fence } => job.step = Step::ToProve(fence),
            Call::CreateMarker { fence, position } => {
                job.marker = position;
                job.step = job.opened(fence);
            }
            Call::Write { fence, row, .. } => {
                job.marker = row.0;
                job.cursor.marked = job.cursor.marked.max(row.0);
                job.finish(row.0);
                job.step = Step::Open(fence);
            }
        }
        out.push((action(true), applied));
    }

    fn faults(&self, state: &State, out: &mut Vec<(Action, State)>) {
        if state.faulted {
            return;
        }
        let mut next = state.clone();
        match self.fault {
            Some(Fault::MarkerLost) if state.target.marker.is_some() => {
                next.target.marker = None;
                next.faulted = true;
                out.push((Action::LoseMarker, next));
            }
            Some(Fault::TargetGoesBack) => match next.saved_target.take() {
                None => {
                    next.saved_target = Some(state.target.clone());
                    out.push((Action::SaveTarget, next));
                }
                Some(saved) => {
                    next.target = saved;
                    next.faulted = true;
                    out.push((Action::RestoreTarget, next));
                }
            },
            Some(Fault::StoreGoesBack) => match next.saved_store.take() {
                None => {
                    next.saved_store = Some(state.store.clone());
                    out.push((Action::SaveStore, next));
                }
                // A job of the new branch must be left to grant.
                Some(saved) if state.jobs.len() < self.bounds.jobs => {
                    // A restore revokes all leases; the branch's own generations make old heads foreign.
                    next.store = Store { granted: 0, ..saved };
                    next.branch = 1;
                    next.faulted = true;
                    next.jobs.iter_mut().for_each(|job| job.on_head = false);
                    out.push((Action::RestoreStore, next));
                }
                Some(_) => {}
            },
            _ => {}
        }
    }
}

impl Model for Sink {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, out: &mut Vec<(Action, State)>) {
        if state.jobs.len() < self.bounds.jobs {
            let mut next = state.clone();
            next.jobs.push(Job::load(&state.store, state.branch));
            next.store.granted = next.jobs.len() as u8;
            out.push((Action::Grant(next.store.granted), next));
        }
        (0..state.jobs.len()).for_each(|index| self.job(state, index, out));
        (0..state.calls.len()).for_each(|index| self.calls(state, index, out));
        self.faults(state, out);
    }

    fn violation(&self, state: &State) -> Option<String> {
        let wanted = (1..=ROWS as u8).filter(|row| *row != FILTERED);
        let rows = state.target.rows.iter().map(|row| row.0);
        if !rows.eq(wanted.take(state.target.rows.len())) {
            return Some(format!("the target has {:?}: not each once and in order", state.target.rows));
        }
        if !state.faulted && state.jobs.iter().any(|job| job.life == Life::Stopped) {
            return Some("a job stopped although nothing was wrong with the target".to_owned());
        }
        // A target that went back has lost rows by its own doing; that we write no further is all we can do.
        let exempt = state.faulted && self.fault == Some(Fault::TargetGoesBack);
        let finished = (1..).zip(&state.store.made).take(state.store.cursor.finished as usize);
        let missing = finished
            .filter(|(row, _)| *row != FILTERED)
            .find(|(row, branch)| !state.target.rows.contains(&(*row, **branch)));
        match missing {
            Some((row, branch)) if !exempt => Some(format!(
                "row {row} of branch {branch} is finished, but the target has {:?}",
                state.target.rows
            )),
            _ => None,
        }
    }

    fn is_settled(&self, state: &State) -> bool {
        let stopped = state.faulted && state.jobs.last().is_some_and(|job| job.life == Life::Stopped);
        stopped
            || (state.store.made.len() == self.bounds.rows
                && state.store.cursor.finished as usize == self.bounds.rows)
    }
}
