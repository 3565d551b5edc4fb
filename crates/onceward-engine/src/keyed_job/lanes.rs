//! A keyed job's lanes: which there are (DEFAULT-DENY), what is said on them, how far their watermarks are.

use onceward_protocol::{LaneKey, Mutant, Verdict, Watermark};

use super::{Effects, KeyedJob, LanePlan};
use crate::job::Request;
use crate::lane::LaneMessage;
use crate::lane_in::LaneIn;
use crate::plan::Wiring;
use crate::stored::lane_key;

impl KeyedJob {
    /// Lanes came or went.
    pub(super) fn index_lanes(&mut self) {
        self.by_key = self.lanes.iter().enumerate().map(|(index, lane)| (lane.key(), index)).collect();
        self.next_lane = 0;
        self.move_effective();
    }
    /// A lane that joins has said nothing yet and holds the watermark; what was promised before stays promised.
    pub(super) fn move_effective(&mut self) {
        if self.joining.is_empty() && self.entering == 0 && !self.retired {
            self.follow();
            let minimum = Watermark::min_over(self.lanes.iter().map(|lane| lane.state.watermark));
            self.effective = self.effective.max(minimum);
        }
    }

    /// Whether a lane is idle; without a search where no source has ever said that it rests.
    pub(super) fn has_idle_lanes(&self) -> bool {
        self.heard_of_rest && self.lanes.iter().any(LaneIn::is_idle)
    }
    /// Idle lanes take over the watermark of the others: what comes on them later is judged by it, after a restart as
    /// well. Lanes that have ended say nothing about time; while all others are idle too, time stands still.
    fn follow(&mut self) {
        if !self.has_idle_lanes() {
            return;
        }
        let speaks = |lane: &&LaneIn| !lane.is_idle() && lane.state.watermark != Watermark::END;
        let Some(others) = self.lanes.iter().filter(speaks).map(|lane| lane.state.watermark).min() else {
            return;
        };
        for lane in self.lanes.iter_mut().filter(|lane| lane.is_idle() && lane.state.watermark < others) {
            lane.state.watermark = others;
            lane.dirty = true;
        }
    }

    pub(super) fn committed(&mut self, epoch: u64, effects: Effects, out: &mut Vec<Request>) {
        for (key, frontier) in effects.frontiers {
            let Some(index) = self.by_key.get(&key) else { continue };
            let lane = &mut self.lanes[*index];
            lane.committed = lane.committed.max(frontier);
            // ACK-IMPLIES-DURABLE: what this epoch contains, not what was taken since.
            let taken = self.mutants.has(Mutant::TakenFrontierAcked);
            lane.acknowledge(if taken { lane.state.taken } else { frontier }, out);
        }
        if effects.version.is_some() {
            self.admit(effects.entering, out);
        }
        self.emission.committed(epoch);
    }

    /// The layout version is durable: lanes that it brought are taken from now on.
    pub(super) fn admit(&mut self, entering: Vec<LanePlan>, out: &mut Vec<Request>) {
        self.entering -= entering.len();
        // One that the layout has retired meanwhile has nothing stored that would have to go.
        let producers = &self.producers;
        let stays = |lane: &LanePlan| producers.iter().any(|known| known.key == lane.key);
        for lane in entering.into_iter().filter(stays).collect::<Vec<_>>() {
            self.lanes.push(LaneIn::new(lane.key, lane_key(&lane.stream, &lane.producer), None));
            self.plans.push(lane);
        }
        self.mark_leaving();
        self.index_lanes();
        self.invite(out);
    }

    /// Asks the producers of lanes without a session to announce themselves.
    pub(super) fn invite(&self, out: &mut Vec<Request>) {
        let consumer = self.ledger.generation();
        for lane in self.lanes.iter().filter(|lane| lane.session().is_none()) {
            let message = LaneMessage::Invite { lane: lane.key(), consumer };
            out.push(Request::Lane { to: lane.key().producer, message });
        }
    }

    /// The layout changed: consumers are re-sent to at once, producers change with the epoch that records the
    /// version.
    pub(super) fn rewire(&mut self, wiring: Wiring, out: &mut Vec<Request>) {
        self.emission.exchange.rewire(&wiring.consumers, self.ledger.generation(), out);
        if !self.mutants.has(Mutant::GateIgnoresAncestor) {
            self.emission.set_gate(wiring.gated);
        }
        if self.retired {
            return;
        }
        let before = std::mem::replace(&mut self.producers, wiring.producers);
        let is_in = |plan: &LanePlan, plans: &[LanePlan]| plans.iter().any(|lane| lane.key == plan.key);
        let new = self.producers.iter().filter(|plan| !is_in(plan, &before));
        self.joining.extend(new.cloned());
        let producers = &self.producers;
        self.joining.retain(|plan| is_in(plan, producers));
        self.mark_leaving();
        if self.producers != before {
            self.wanted_version = Some(wiring.version);
        }
    }

    /// Marks the lanes whose producers the layout has retired; their frontiers go with the next epoch.
    pub(super) fn mark_leaving(&mut self) {
        for (lane, plan) in self.lanes.iter_mut().zip(&self.plans) {
            lane.leaving = !self.producers.iter().any(|known| known.key == plan.key);
        }
    }

    pub(super) fn lane(&mut self, message: LaneMessage, out: &mut Vec<Request>) {
        let key = message.lane();
        let own = self.ledger.generation();
        if matches!(
            message,
            LaneMessage::Invite { .. }
                | LaneMessage::Open { .. }
                | LaneMessage::Ack { .. }
                | LaneMessage::Credit { .. }
        ) {
            self.emission.exchange.lane(&message, own, out);
            return;
        }
        if self.mutants.has(Mutant::RetiredLaneAccepted) && !self.by_key.contains_key(&key) {
            self.accept_unknown(key);
        }
        // DEFAULT-DENY: a lane that is not in the layout is dropped.
        let Some(index) = self.by_key.get(&key).copied() else { return };
        let lane = &mut self.lanes[index];
        match message {
            LaneMessage::Hello { producer, .. } => lane.hello(producer, own, self.nonces.next_u64(), out),
            LaneMessage::Batch(batch) => {
                let producer = batch.session.producer;
                if lane.receive(batch, self.mutants) == Verdict::Gap {
                    lane.open(producer, own, self.nonces.next_u64(), out);
                }
            }
            LaneMessage::Idle { session } => {
                lane.rest(session);
                self.heard_of_rest = true;
                self.move_effective();
            }
            _ => {}
        }
    }

    /// The broken rule: an unknown lane is taken for a new one.
    pub(super) fn accept_unknown(&mut self, key: LaneKey) {
        let Some(like) = self.plans.first().cloned() else { return };
        self.lanes.push(LaneIn::new(key, vec![b'l', 0, key.producer as u8], None));
        self.plans.push(LanePlan { key, ..like });
        self.by_key.insert(key, self.lanes.len() - 1);
    }

    /// A lane's watermark moved: watermarks never go back.
    pub(super) fn advance(&mut self, index: usize, watermark: Watermark) {
        let lane = &mut self.lanes[index];
        if watermark <= lane.state.watermark {
            return;
        }
        let was_minimum = lane.state.watermark <= self.effective || self.has_idle_lanes();
        let lane = &mut self.lanes[index];
        lane.state.watermark = watermark;
        lane.dirty = true;
        if was_minimum {
            self.move_effective();
        }
    }
}
