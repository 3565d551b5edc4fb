//! The third model: key ranges that are cut and joined while epochs are on their way.
//!
//! A source feeds the ranges of a computation, whose outboxes feed one or two consuming partitions. Sessions, lost
//! packets and pipelining are the first model's matter: here a message that its sender has and its consumer may take can
//! be taken at any time, and a consuming partition commits what it takes at once. Old jobs (zombies) and leaders that
//! decided long ago go on acting.

use arrayvec::ArrayVec;
use onceward_protocol::recut::{LaneState, Recut};
use onceward_protocol::{CommitPermit, Fenced, KeyRange, Mutant, Mutants};

use crate::recut_state::{
    Action, Commit, Consumer, Decision, Job, KEYS, Keys, Lane, Life, PARTS, Part, State, Submitted,
    generation, hash_of, head, keys_of, range,
};
use crate::search::Model;

/// A rule that can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// RECUT-ATOMIC: the parents' last commits are read when the leader decides, not when it revokes.
    ReadInside,
    /// RECUT-ATOMIC: the parents are revoked some time after the children were created.
    RevokeInside,
    /// RECUT-ATOMIC: the layout version is not compared.
    LayoutCompared,
    /// SUBRANGE-FRONTIER: a merge keeps the smallest frontier and nothing beside it.
    SubsKept,
    /// SUBRANGE-FRONTIER: a parent that has seen nothing gets its sibling's frontier.
    MissingIsUnseen,
    /// ANCESTOR-GATE: only parents are looked at, not grandparents.
    GateReachesFar,
    /// ANCESTOR-GATE: a retired parent gets no job.
    RetiredDrains,
    /// ANCESTOR-GATE, DEFAULT-DENY: a retired parent is forgotten with its outbox full.
    DrainedBeforeGone,
    /// DEFAULT-DENY: a merged consumer takes the smallest layout version of its parents.
    LargestVersion,
    /// A switch that engine and simulator share.
    Shared(Mutant),
}

/// How large the model is.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages of the source, with keys in turn.
    pub messages: u8,
    /// Keys, each a cell of the key space.
    pub keys: u8,
    /// Jobs that a live range is granted to, one after the other; the last one does not fail. A retired range gets
    /// one more.
    pub jobs: u8,
    /// Whether there is a range for each key at the start, instead of one for all.
    pub split: bool,
    /// Whether the source forgets what every range has; if not, a range that starts too early finds it still.
    pub forgets: bool,
    /// Re-cuts in all.
    pub recuts: u8,
    /// Leaders that decide first and act later, at most two; with 0 both is one step.
    pub leaders: usize,
    /// Consuming partitions: one, or two with half of the keys each that are merged at some time.
    pub consumers: u8,
}

/// The model with at most one rule switched off.
pub struct Recutting {
    pub bounds: Bounds,
    pub without: Option<Rule>,
}

impl Recutting {
    fn off(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }
    fn mutants(&self) -> Mutants {
        match self.without {
            Some(Rule::Shared(mutant)) => Mutants::only(mutant),
            _ => Mutants::NONE,
        }
    }
    fn key_of(&self, message: u8) -> u8 {
        (message - 1) % self.bounds.keys
    }
    /// The message's number among those of its key, from 1.
    fn ordinal(&self, message: u8) -> u8 {
        (message - 1) / self.bounds.keys + 1
    }
    fn total(&self, key: u8) -> u8 {
        (1..=self.bounds.messages).filter(|message| self.key_of(*message) == key).count() as u8
    }
    /// The source forgets what every live range has committed.
    fn forget(&self, state: &mut State) {
        let live = state.parts.iter().filter(|part| part.life == Life::Live);
        let taken = live.map(|part| part.lane.taken).min().unwrap_or(0);
        if self.bounds.forgets {
            state.finished = state.finished.max(taken);
        }
    }
    fn permit(&self, part: &Part, own: u8, job: u8, epoch: u8, last: Commit) -> Result<CommitPermit, Fenced> {
        part.head(own).permit(generation(own, job), epoch.into(), head(own, last), self.mutants())
    }

    /// A grant and its load are one step (LOAD-AFTER-GRANT is the first model's matter).
    fn grant(&self, state: &mut State, index: usize) -> Action {
        let part = &mut state.parts[index];
        part.last_number += 1;
        part.granted = part.last_number;
        let job = Job {
            part: index as u8,
            generation: part.granted,
            last: part.head,
            drains: part.life == Life::Retired,
            lane: part.lane.clone(),
            owes: (part.acked, part.outbox.len() as u8),
            submitted: false,
        };
        let action = Action::Grant { part: job.part, generation: job.generation };
        state.jobs.push(job);
        state.jobs.sort_unstable();
        action
    }

    /// Jobs after the first one of a live range, and the one that drains a retired range.
    fn grants(&self, state: &State, out: &mut Vec<(Action, State)>) {
        for (index, part) in state.parts.iter().enumerate() {
            let drains = state.jobs.iter().any(|job| job.part == index as u8 && job.drains);
            let due = match part.life {
                Life::Live => part.last_number < self.bounds.jobs,
                Life::Retired => !drains && !part.outbox.is_empty() && !self.off(Rule::RetiredDrains),
                Life::Gone => false,
            };
            if due {
                let mut next = state.clone();
                let action = self.grant(&mut next, index);
                out.push((action, self.without_the_idle(next)));
            }
        }
    }

    /// What can do nothing any more is not told apart from what is gone: an epoch that the store will refuse whenever
    /// it comes, because another generation or none owns the range; a zombie that has nothing to send.
    fn without_the_idle(&self, mut state: State) -> State {
        if self.without.is_some() {
            return state;
        }
        let State { parts, jobs, commits, consumers, .. } = &mut state;
        commits.retain(|commit| {
            let part = &parts[commit.part as usize];
            let permit = self.permit(part, commit.part, commit.generation, commit.epoch, commit.predecessor);
            let refused = matches!(permit, Err(Fenced::NotOwner { .. }));
            if refused {
                let is_its = |job: &&mut Job| job.part == commit.part && job.generation == commit.generation;
                jobs.iter_mut().filter(is_its).for_each(|job| job.submitted = false);
            }
            !refused
        });
        jobs.retain(|job| {
            let part = &parts[job.part as usize];
            let wanted = consumers.iter().filter(|consumer| consumer.live).any(|consumer| {
                let lane = &consumer.lanes[job.part as usize];
                part.life != Life::Gone && lane.as_ref().is_none_or(|lane| lane.taken < job.owes.1)
            });
            part.granted == job.generation || job.submitted || (wanted && job.owes.0 < job.owes.1)
        });
        jobs.sort_unstable();
        state
    }

    /// A job that owns nothing any more is gone for good, so that completion is not owed to it.
    fn zombie_ends(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let Job { part, generation, submitted, .. } = state.jobs[index];
        if !submitted && state.parts[part as usize].granted != generation {
            let mut next = state.clone();
            next.jobs.remove(index);
            out.push((Action::ZombieEnds { part, generation }, next));
        }
    }

    /// An epoch takes the lane up to the next message of its own.
    fn take(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.jobs[index];
        let part = &state.parts[job.part as usize];
        let next_one = job.lane.taken + 1;
        // What a zombie takes now is refused (`without_the_idle`).
        let zombie = self.without.is_none() && part.granted != job.generation;
        let idle = job.drains || job.submitted || state.commits.is_full();
        if zombie || idle || next_one > self.bounds.messages || next_one <= state.finished {
            return;
        }
        let own = (next_one..=self.bounds.messages).find(|at| part.owns(self.key_of(*at)));
        let mut next = state.clone();
        let job = &mut next.jobs[index];
        let message = own.filter(|at| !job.lane.is_covered(self.key_of(*at), *at));
        job.lane.take(own.unwrap_or(self.bounds.messages));
        job.submitted = true;
        let submitted = Submitted {
            part: job.part,
            generation: job.generation,
            epoch: job.last.1 + 1,
            predecessor: job.last,
            message,
            lane: job.lane.clone(),
        };
        let action = Action::TakeAndSubmit {
            part: job.part,
            generation: job.generation,
            message,
            taken: job.lane.taken,
        };
        job.last = (submitted.generation, submitted.epoch);
        next.commits.push(submitted);
        next.sort();
        out.push((action, next));
    }

    fn decide(&self, state: &State, index: usize) -> (Action, State) {
        let mut next = state.clone();
        let commit = next.commits.remove(index);
        let part = &mut next.parts[commit.part as usize];
        let permit = self.permit(part, commit.part, commit.generation, commit.epoch, commit.predecessor);
        let is_its = |job: &Job| job.part == commit.part && job.generation == commit.generation;
        if permit.is_err() {
            next.jobs.retain(|job| !is_its(job));
            return (Action::StoreRefuses(commit), next);
        }
        part.head = (commit.generation, commit.epoch);
        part.lane = commit.lane.clone();
        if let Some(message) = commit.message {
            let applied = &mut part.applied[self.key_of(message) as usize];
            *applied += 1;
            if *applied != self.ordinal(message) {
                next.broken = Some("a key's state has not each message once and in order");
            }
            if part.outbox.try_push(message).is_err() {
                next.broken = Some("a key's state has more messages than there are");
            }
        }
        let len = part.outbox.len() as u8;
        for job in next.jobs.iter_mut().filter(|job| is_its(job)) {
            job.submitted = false;
            job.owes.1 = len;
        }
        self.forget(&mut next);
        next.sort();
        (Action::StoreAccepts(commit), next)
    }

    /// ANCESTOR-GATE: an overlapping retired range that is older has something undrained.
    fn is_gated(&self, state: &State, part: &Part) -> bool {
        if self.mutants().has(Mutant::GateIgnoresAncestor) {
            return false;
        }
        state.parts.iter().enumerate().any(|(index, other)| {
            let counts = !self.off(Rule::GateReachesFar) || part.parents & (1 << index) != 0;
            other.life == Life::Retired
                && counts
                && other.version < part.version
                && range(other.keys).overlaps(range(part.keys))
        })
    }

    /// A consumer takes the next message of a job's outbox, in the order of the lane.
    fn send(&self, state: &State, index: usize, to: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.jobs[index];
        let part = &state.parts[job.part as usize];
        let consumer = &state.consumers[to];
        let unknown = self.mutants().has(Mutant::RetiredLaneAccepted).then(Lane::default);
        // DEFAULT-DENY: a lane that is not in the layout version is dropped.
        let Some(mut lane) = consumer.lanes[job.part as usize].clone().or(unknown) else { return };
        let at = lane.taken;
        let has = job.owes.0 <= at && at < job.owes.1;
        if !consumer.live || !has || self.is_gated(state, part) {
            return;
        }
        let message = part.outbox[at as usize];
        let key = self.key_of(message);
        let mut next = state.clone();
        if range(consumer.keys).contains(hash_of(key)) && !lane.is_covered(key, at + 1) {
            let arrived = &mut next.arrived[key as usize];
            *arrived += 1;
            if *arrived != self.ordinal(message) {
                next.broken = Some("the consumer has not each message of a key once and in order");
            }
        }
        lane.take(at + 1);
        next.consumers[to].lanes[job.part as usize] = Some(lane);
        let action = Action::Send { part: job.part, generation: job.generation, consumer: to as u8, message };
        out.push((action, self.without_the_idle(next)));
    }

    /// What the owner of a range records about its outbox.
    fn record(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.jobs[index];
        let part = &state.parts[job.part as usize];
        let epoch = job.last.1 + 1;
        let permitted = self.permit(part, job.part, job.generation, epoch, job.last).is_ok();
        if job.submitted || !permitted {
            return;
        }
        let arrived = state.arrived_of(job.part as usize);
        let mut to_record = vec![(arrived, false)];
        if self.mutants().has(Mutant::OutboxDroppedEarly) && part.acked == arrived && arrived < job.owes.1 {
            to_record.push((arrived + 1, true));
        }
        for (acked, in_vain) in to_record.into_iter().filter(|(acked, _)| *acked > part.acked) {
            if !job.drains && !in_vain {
                continue;
            }
            let mut next = state.clone();
            let part = &mut next.parts[job.part as usize];
            part.head = (job.generation, epoch);
            part.acked = acked;
            next.jobs[index].last = (job.generation, epoch);
            next.sort();
            out.push((
                match in_vain {
                    true => Action::SendInVain { part: job.part, message: acked },
                    false => Action::RecordDrained { part: job.part, acked },
                },
                next,
            ));
        }
    }

    /// A retired range whose outbox is durably empty leaves the layout.
    fn drained(&self, state: &State, out: &mut Vec<(Action, State)>) {
        for (index, part) in state.parts.iter().enumerate() {
            let drained = part.acked as usize == part.outbox.len() || self.off(Rule::DrainedBeforeGone);
            if part.life != Life::Retired || !drained {
                continue;
            }
            let mut next = state.clone();
            next.parts[index].life = Life::Gone;
            next.parts[index].granted = 0;
            next.version += 1;
            next.jobs.retain(|job| job.part != index as u8 || !job.drains);
            let action = Action::Forget { part: index as u8, layout: next.version };
            out.push((action, self.without_the_idle(next)));
        }
    }

    fn possible(&self, state: &State) -> Vec<Decision> {
        let mut live: Vec<u8> = (0..state.parts.len() as u8)
            .filter(|part| state.parts[*part as usize].life == Life::Live)
            .collect();
        live.sort_by_key(|part| state.parts[*part as usize].keys);
        let decision = |parents: &[u8], cut| Decision {
            version: state.version,
            parents: parents.iter().copied().collect(),
            cut,
            seen: ArrayVec::new(),
        };
        let cuts = live.iter().flat_map(|part| {
            let (first, last) = state.parts[*part as usize].keys;
            (first + 1..=last).map(move |cut| decision(&[*part], Some(cut)))
        });
        cuts.chain(live.windows(2).map(|pair| decision(pair, None))).collect()
    }

    fn recuts(&self, state: &State, out: &mut Vec<(Action, State)>) {
        if state.recuts > 0 && self.bounds.leaders == 0 {
            out.extend(self.possible(state).iter().filter_map(|decision| self.recut(state, decision)));
        }
        if state.leaders > 0 {
            for mut decision in self.possible(state) {
                if self.off(Rule::ReadInside) {
                    let seen = decision.parents.iter().map(|parent| &state.parts[*parent as usize]);
                    decision.seen = seen.map(|part| (part.lane.clone(), part.applied)).collect();
                }
                let mut next = state.clone();
                next.leaders -= 1;
                next.decisions.push(decision.clone());
                next.sort();
                out.push((Action::Decide(decision), next));
            }
        }
        for index in 0..state.decisions.len() {
            let mut next = state.clone();
            let decision = next.decisions.remove(index);
            if decision.version != state.version && !self.off(Rule::LayoutCompared) {
                out.push((Action::DropDecision, next));
            } else if state.recuts > 0 {
                out.extend(self.recut(&next, &decision));
            }
        }
    }

    /// RECUT-ATOMIC: one transaction revokes the parents, reads their last commit, creates the children and sets the
    /// layout version.
    fn recut(&self, state: &State, decision: &Decision) -> Option<(Action, State)> {
        let mut next = state.clone();
        let parents: Vec<&Part> =
            decision.parents.iter().map(|parent| &state.parts[*parent as usize]).collect();
        let recut = match decision.cut {
            Some(cut) => Recut::split(range(parents[0].keys), hash_of(cut))?,
            None => Recut::merge(range(parents[0].keys), range(parents[1].keys))?,
        };
        assert_eq!(recut.check(), Ok(()));
        let read = |at: usize| match decision.seen.get(at) {
            Some((lane, applied)) => (lane.clone(), *applied),
            None => (parents[at].lane.clone(), parents[at].applied),
        };
        let read: Vec<(Keys, Lane, [u8; KEYS])> =
            (0..parents.len()).map(|at| (parents[at].keys, read(at).0, read(at).1)).collect();
        next.recuts -= 1;
        next.version += 1;
        for parent in &decision.parents {
            let part = &mut next.parts[*parent as usize];
            if part.life == Life::Live {
                part.life = Life::Retired;
            }
            if !self.off(Rule::RevokeInside) {
                part.granted = 0;
            }
        }
        for child in &recut.children {
            let mut applied = [0; KEYS];
            for key in (0..self.bounds.keys).filter(|key| child.contains(hash_of(*key))) {
                let parent = read.iter().find(|(keys, ..)| range(*keys).contains(hash_of(key)));
                applied[key as usize] = parent.map_or(0, |(.., applied)| applied[key as usize]);
            }
            let lanes: Vec<_> = read.iter().map(|(keys, lane, _)| (*keys, Some(lane))).collect();
            next.parts.push(Part {
                life: Life::Live,
                keys: keys_of(*child),
                version: next.version,
                parents: decision.parents.iter().fold(0, |bits, parent| bits | 1 << parent),
                granted: 0,
                last_number: 0,
                head: (0, 0),
                lane: self.inherit(*child, &lanes),
                applied,
                outbox: ArrayVec::new(),
                acked: 0,
            });
            next.consumers.iter_mut().for_each(|consumer| consumer.lanes.push(None));
        }
        self.forget(&mut next);
        for index in state.parts.len()..next.parts.len() {
            self.grant(&mut next, index);
        }
        let children = recut.children.iter().map(|child| keys_of(*child)).collect();
        let action = Action::Recut { parents: decision.parents.clone(), children, layout: next.version };
        Some((action, self.without_the_idle(next)))
    }

    /// SUBRANGE-FRONTIER. What was never written is not there to read.
    fn inherit(&self, child: KeyRange, parents: &[(Keys, Option<&Lane>)]) -> Lane {
        let sibling = parents.iter().filter_map(|(_, lane)| *lane).max_by_key(|lane| lane.taken);
        let real: Vec<(KeyRange, Option<LaneState>)> = parents
            .iter()
            .map(|(keys, lane)| {
                let lane = lane.filter(|lane| **lane != Lane::default());
                let lane = if self.off(Rule::MissingIsUnseen) { lane.or(sibling) } else { lane };
                (range(*keys), lane.map(Lane::real))
            })
            .collect();
        let real: Vec<_> = real.iter().map(|(range, lane)| (*range, lane.as_ref())).collect();
        let mut state = LaneState::inherit(child, &real, self.mutants());
        if self.off(Rule::SubsKept) {
            state.subs.clear();
        }
        Lane::of(&state)
    }

    /// DEFAULT-DENY: a consumer takes up the layout's version with its lanes, and drops those that left it.
    fn adopt(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        if !state.consumers[index].live || state.consumers[index].version == state.version {
            return;
        }
        let mut next = state.clone();
        let consumer = &mut next.consumers[index];
        consumer.version = state.version;
        for (part, lane) in consumer.lanes.iter_mut().enumerate() {
            *lane = if state.is_listed(part) { Some(lane.take().unwrap_or_default()) } else { None };
        }
        out.push((Action::Adopt { consumer: index as u8, layout: state.version }, next));
    }

    /// The consuming partitions are merged: the child takes the largest layout version, and only that one's lanes.
    fn merge_consumers(&self, state: &State, out: &mut Vec<(Action, State)>) {
        let [low, high] = &state.consumers[..] else { return };
        let mut next = state.clone();
        let smallest = self.off(Rule::LargestVersion);
        let leading = if (low.version >= high.version) != smallest { low } else { high };
        let keys = (low.keys.0, high.keys.1);
        let lanes = (0..state.parts.len()).map(|part| {
            leading.lanes[part].as_ref()?;
            let parents = [low, high].map(|parent| (parent.keys, parent.lanes[part].as_ref()));
            Some(self.inherit(range(keys), &parents))
        });
        let child = Consumer { live: true, keys, version: leading.version, lanes: lanes.collect() };
        next.consumers.iter_mut().for_each(|parent| parent.live = false);
        let layout = child.version;
        next.consumers.push(child);
        out.push((Action::MergeConsumers { layout }, next));
    }
}

impl Model for Recutting {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        let whole = (0, self.bounds.keys - 1);
        let part = |keys| Part {
            life: Life::Live,
            keys,
            version: 1,
            parents: 0,
            granted: 0,
            last_number: 0,
            head: (0, 0),
            lane: Lane::default(),
            applied: [0; KEYS],
            outbox: ArrayVec::new(),
            acked: 0,
        };
        let parts: ArrayVec<Part, PARTS> = match self.bounds.split {
            true => (0..self.bounds.keys).map(|key| part((key, key))).collect(),
            false => [part(whole)].into_iter().collect(),
        };
        let consumer = |keys| Consumer {
            live: true,
            keys,
            version: 1,
            lanes: parts.iter().map(|_| Some(Lane::default())).collect(),
        };
        let consumers = match self.bounds.consumers {
            1 => [consumer(whole)].into_iter().collect(),
            _ => [consumer((0, 0)), consumer((1, whole.1))].into_iter().collect(),
        };
        let mut state = State {
            version: 1,
            finished: 0,
            parts,
            jobs: ArrayVec::new(),
            commits: ArrayVec::new(),
            decisions: ArrayVec::new(),
            leaders: self.bounds.leaders as u8,
            recuts: self.bounds.recuts,
            consumers,
            arrived: [0; KEYS],
            broken: None,
        };
        (0..state.parts.len()).for_each(|index| drop(self.grant(&mut state, index)));
        state
    }

    fn steps(&self, state: &State, out: &mut Vec<(Action, State)>) {
        self.grants(state, out);
        for index in 0..state.jobs.len() {
            self.zombie_ends(state, index, out);
            self.take(state, index, out);
            (0..state.consumers.len()).for_each(|to| self.send(state, index, to, out));
            self.record(state, index, out);
        }
        out.extend((0..state.commits.len()).map(|index| self.decide(state, index)));
        self.recuts(state, out);
        self.drained(state, out);
        (0..state.consumers.len()).for_each(|index| self.adopt(state, index, out));
        self.merge_consumers(state, out);
    }

    fn violation(&self, state: &State) -> Option<String> {
        if let Some(broken) = state.broken {
            return Some(broken.to_owned());
        }
        let behind = |part: &&Part| part.life == Life::Live && part.lane.taken < state.finished;
        state.parts.iter().find(behind).map(|part| {
            format!(
                "a range needs what follows {}, the source has forgotten {}",
                part.lane.taken, state.finished
            )
        })
    }

    fn is_settled(&self, state: &State) -> bool {
        (0..self.bounds.keys).all(|key| state.arrived[key as usize] == self.total(key))
            && state.parts.iter().all(|part| part.life != Life::Retired)
    }
}
