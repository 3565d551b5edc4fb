//! Materialised lanes: messages are stored in the epoch that made them and leave after its commit, so that a key
//! exchange starts at a committed outbox (ID-UNIQUE) and its producer never has to compute them again.

use std::collections::VecDeque;
use std::sync::Arc;

use onceward_protocol::codec::{Reader, put_bytes, put_str, put_varint};
use onceward_protocol::recut::Routing;
use onceward_protocol::{Frontier, Generation, LanePoint, Position, Watermark};
use onceward_store::{TableId, WriteBatch};

use crate::job::Request;
use crate::lane::LaneMessage;
use crate::lane_out::LaneOut;
use crate::plan::GroupWiring;

/// The table of stored lane messages.
pub const EXCHANGE: TableId = TableId(4);

/// Owed bytes above which the job must not take more input.
pub const MAX_EXCHANGE_BYTES: usize = 64 << 20;

/// One stored message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredEntry {
    point: LanePoint,
    hash: u64,
    event_time: i64,
    start: u32,
    key_len: u32,
    args_len: u32,
}

/// The messages of one epoch for one group of lanes, and what is true after them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExchangeChunk {
    entries: Vec<StoredEntry>,
    bytes: Vec<u8>,
    /// Each in force before the entry with that index.
    watermarks: Vec<(u32, Watermark)>,
    /// Everything of the group up to here is in this chunk or before it.
    through: Frontier,
}

impl ExchangeChunk {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.watermarks.is_empty() && self.through == Frontier::START
    }
    fn size(&self) -> usize {
        self.bytes.len() + self.entries.len() * 40
    }
    fn put_watermark(&mut self, watermark: Watermark) {
        let at = self.entries.len() as u32;
        match self.watermarks.last_mut() {
            Some((index, last)) if *index == at => *last = watermark,
            Some((_, last)) if *last == watermark => {}
            _ => self.watermarks.push((at, watermark)),
        }
    }
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + self.entries.len() * 40 + 64);
        self.through.encode(&mut out);
        put_varint(&mut out, self.watermarks.len() as u64);
        for (index, watermark) in &self.watermarks {
            put_varint(&mut out, u64::from(*index));
            out.extend_from_slice(&watermark.0.to_be_bytes());
        }
        put_varint(&mut out, self.entries.len() as u64);
        for entry in &self.entries {
            out.extend_from_slice(&entry.point.encode());
            out.extend_from_slice(&entry.hash.to_be_bytes());
            out.extend_from_slice(&entry.event_time.to_be_bytes());
            let start = entry.start as usize;
            let key = start..start + entry.key_len as usize;
            put_bytes(&mut out, &self.bytes[key.clone()]);
            put_bytes(&mut out, &self.bytes[key.end..key.end + entry.args_len as usize]);
        }
        out
    }
    /// The inverse of [`ExchangeChunk::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let mut chunk = ExchangeChunk { through: Frontier::decode(&mut input)?, ..Default::default() };
        for _ in 0..input.varint()? {
            let index = u32::try_from(input.varint()?).ok()?;
            chunk.watermarks.push((index, Watermark(input.i64()?)));
        }
        for _ in 0..input.varint()? {
            let point = LanePoint::decode(input.array()?);
            let (hash, event_time) = (input.u64()?, input.i64()?);
            let start = u32::try_from(chunk.bytes.len()).ok()?;
            let key = input.bytes()?;
            let args = input.bytes()?;
            chunk.bytes.extend_from_slice(key);
            chunk.bytes.extend_from_slice(args);
            let (key_len, args_len) = (u32::try_from(key.len()).ok()?, u32::try_from(args.len()).ok()?);
            chunk.entries.push(StoredEntry { point, hash, event_time, start, key_len, args_len });
        }
        input.is_empty().then_some(chunk)
    }
}

/// The key of a stored chunk.
fn chunk_key(group: &str, epoch: u64) -> Vec<u8> {
    let mut key = Vec::new();
    put_str(&mut key, group);
    key.extend_from_slice(&epoch.to_be_bytes());
    key
}

/// Group name and epoch of a stored chunk, from its key.
pub fn decode_chunk_key(key: &[u8]) -> Option<(String, u64)> {
    let mut input = Reader::new(key);
    let group = input.str()?.to_owned();
    let epoch = input.u64()?;
    input.is_empty().then_some((group, epoch))
}

/// A committed chunk, its entries bucketed by lane.
struct Owed {
    epoch: u64,
    chunk: Arc<ExchangeChunk>,
    /// Entry numbers, lane after lane; within a lane in order.
    order: Vec<u32>,
    /// Where each lane's part of `order` ends.
    ends: Vec<u32>,
}

struct Group {
    /// Under this name chunks are stored: stream and consumer.
    name: String,
    routing: Option<Routing>,
    lanes: Vec<LaneOut>,
    gathering: ExchangeChunk,
    in_epochs: VecDeque<(u64, Arc<ExchangeChunk>)>,
    owed: VecDeque<Owed>,
    to_delete: Vec<u64>,
}

impl Group {
    fn owe(&mut self, epoch: u64, chunk: Arc<ExchangeChunk>) {
        let (order, ends) = bucket(&chunk, self.routing.as_ref(), self.lanes.len());
        self.owed.push_back(Owed { epoch, chunk, order, ends });
    }
    fn bytes(&self) -> usize {
        let owed: usize = self.owed.iter().map(|owed| owed.chunk.size()).sum();
        let in_epochs: usize = self.in_epochs.iter().map(|(_, chunk)| chunk.size()).sum();
        owed + in_epochs + self.gathering.size()
    }
    /// What every consumer has committed.
    fn acked(&self) -> Frontier {
        self.lanes.iter().map(LaneOut::acked).min().unwrap_or(Frontier::START)
    }
    fn release(&mut self) {
        let acked = self.acked();
        while self.owed.front().is_some_and(|owed| owed.chunk.through <= acked) {
            if let Some(owed) = self.owed.pop_front() {
                self.to_delete.push(owed.epoch);
            }
        }
    }
    fn rewire(&mut self, wiring: &GroupWiring, own: Generation, out: &mut Vec<Request>) {
        if self.lanes.iter().map(LaneOut::key).eq(wiring.keys()) {
            return;
        }
        // Everything below the first chunk that is owed was acknowledged by the ancestors of every lane.
        let acked = self.acked();
        LaneOut::rewire(&mut self.lanes, wiring.keys(), acked, own, out);
        self.routing = wiring.routing();
        for owed in &mut self.owed {
            (owed.order, owed.ends) = bucket(&owed.chunk, self.routing.as_ref(), self.lanes.len());
        }
    }
    /// Sends each lane what its consumer has room for.
    fn send(&mut self, out: &mut Vec<Request>) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            for owed in &self.owed {
                if owed.chunk.through <= lane.sent() {
                    continue;
                }
                if !lane.is_ready() {
                    break;
                }
                let from = if index == 0 { 0 } else { owed.ends[index - 1] as usize };
                let mut marks = owed.chunk.watermarks.iter().peekable();
                for number in &owed.order[from..owed.ends[index] as usize] {
                    while let Some((_, watermark)) = marks.next_if(|(at, _)| at <= number) {
                        lane.watermark(*watermark);
                    }
                    let entry = &owed.chunk.entries[*number as usize];
                    let start = entry.start as usize;
                    let key = start..start + entry.key_len as usize;
                    let args = key.end..key.end + entry.args_len as usize;
                    let (point, bytes) = (entry.point, &owed.chunk.bytes);
                    lane.push(point, entry.hash, entry.event_time, &bytes[key], &bytes[args]);
                }
                marks.for_each(|(_, watermark)| lane.watermark(*watermark));
                lane.flush(owed.chunk.through, out);
            }
        }
    }
}

fn bucket(chunk: &ExchangeChunk, routing: Option<&Routing>, lanes: usize) -> (Vec<u32>, Vec<u32>) {
    let Some(routing) = routing else { return (Vec::new(), vec![0; lanes]) };
    let mut counts = vec![0u32; lanes];
    for entry in &chunk.entries {
        counts[routing.index_of(entry.hash)] += 1;
    }
    let mut next = Vec::with_capacity(lanes);
    let mut sum = 0;
    for count in &counts {
        next.push(sum);
        sum += count;
    }
    let mut order = vec![0; chunk.entries.len()];
    for (number, entry) in chunk.entries.iter().enumerate() {
        let lane = routing.index_of(entry.hash);
        order[next[lane] as usize] = number as u32;
        next[lane] += 1;
    }
    (order, next)
}

/// All materialised lanes of one job.
pub struct Exchange {
    groups: Vec<Group>,
    /// Nothing may leave while an ancestor has something undrained (ANCESTOR-GATE).
    gated: bool,
}

impl Exchange {
    /// Takes up what is stored; the gate is open.
    pub fn new(
        wiring: &[GroupWiring],
        mut stored: std::collections::BTreeMap<String, Vec<(u64, ExchangeChunk)>>,
    ) -> Self {
        let groups = wiring
            .iter()
            .map(|wiring| {
                let mut group = Group {
                    routing: wiring.routing(),
                    lanes: wiring.keys().map(|key| LaneOut::new(key, Frontier::START)).collect(),
                    gathering: ExchangeChunk::default(),
                    in_epochs: VecDeque::new(),
                    owed: VecDeque::new(),
                    to_delete: Vec::new(),
                    name: wiring.name.clone(),
                };
                for (epoch, chunk) in stored.remove(&group.name).unwrap_or_default() {
                    group.owe(epoch, Arc::new(chunk));
                }
                group
            })
            .collect();
        Exchange { groups, gated: false }
    }
    /// Whether the job has no materialised lanes.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    /// All lanes.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneOut> {
        self.groups.iter().flat_map(|group| group.lanes.iter())
    }
    /// Announces the job to its consumers.
    pub fn begin(&self, own: Generation, out: &mut Vec<Request>) {
        self.lanes().for_each(|lane| lane.hello(own, out));
    }
    /// Puts a message into the epoch being gathered.
    #[inline]
    pub fn push(
        &mut self,
        group: usize,
        point: LanePoint,
        hash: u64,
        event_time: i64,
        key: &[u8],
        args: &[u8],
    ) {
        let chunk = &mut self.groups[group].gathering;
        let start = chunk.bytes.len() as u32;
        chunk.bytes.extend_from_slice(key);
        chunk.bytes.extend_from_slice(args);
        let (key_len, args_len) = (key.len() as u32, args.len() as u32);
        chunk.entries.push(StoredEntry { point, hash, event_time, start, key_len, args_len });
    }
    /// Puts a watermark at this place of every lane of the group.
    pub fn watermark(&mut self, group: usize, watermark: Watermark) {
        self.groups[group].gathering.put_watermark(watermark);
    }
    /// Puts a watermark at this place of every lane.
    pub fn watermark_all(&mut self, watermark: Watermark) {
        self.groups.iter_mut().for_each(|group| group.gathering.put_watermark(watermark));
    }
    /// Ends what was gathered for `epoch` where positions are (epoch, index).
    pub fn seal(&mut self, epoch: u64) {
        for chunk in self.groups.iter_mut().map(|group| &mut group.gathering) {
            if !chunk.is_empty() && chunk.through == Frontier::START {
                chunk.through = Frontier::through(Position::new(epoch, u32::MAX));
            }
        }
    }
    /// Promises that everything through `through` is in the epoch being gathered or before it.
    pub fn through(&mut self, through: Frontier) {
        self.groups.iter_mut().for_each(|group| group.gathering.through = through);
    }
    /// Payload bytes in the epoch being gathered.
    pub fn gathered_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.gathering.bytes.len() as u64).sum()
    }
    /// Messages in the epoch being gathered.
    pub fn gathered_rows(&self) -> u64 {
        self.groups.iter().map(|group| group.gathering.entries.len() as u64).sum()
    }
    /// Whether the job must wait for its consumers.
    pub fn is_full(&self) -> bool {
        self.groups.iter().map(Group::bytes).sum::<usize>() > MAX_EXCHANGE_BYTES
    }
    /// Whether an epoch would change something.
    pub fn is_dirty(&self) -> bool {
        self.groups.iter().any(|group| !group.gathering.is_empty() || !group.to_delete.is_empty())
    }
    /// Whether everything is acknowledged by every consumer, and that is recorded.
    pub fn is_drained(&self) -> bool {
        self.groups.iter().all(|group| {
            group.gathering.is_empty()
                && group.in_epochs.is_empty()
                && group.owed.is_empty()
                && group.to_delete.is_empty()
        })
    }
    /// Whether the gate is closed.
    pub fn is_gated(&self) -> bool {
        self.gated
    }
    /// Opens or closes the gate.
    pub fn set_gate(&mut self, closed: bool) {
        self.gated = closed;
    }
    /// The layout changed.
    pub fn rewire(&mut self, wiring: &[GroupWiring], own: Generation, out: &mut Vec<Request>) {
        for (group, wiring) in self.groups.iter_mut().zip(wiring) {
            group.rewire(wiring, own, out);
        }
    }
    /// Takes what a consumer says.
    pub fn lane(&mut self, message: &LaneMessage, own: Generation, out: &mut Vec<Request>) {
        let key = message.lane();
        for group in &mut self.groups {
            let Some(lane) = group.lanes.iter_mut().find(|lane| lane.key() == key) else { continue };
            lane.take(message, own, out);
            group.release();
        }
    }
    /// Writes the epoch that is being closed.
    pub fn write_epoch(&mut self, epoch: u64, writes: &mut WriteBatch) {
        for group in &mut self.groups {
            for stored in group.to_delete.drain(..) {
                writes.delete(EXCHANGE, &chunk_key(&group.name, stored));
            }
            if !group.gathering.is_empty() {
                let chunk = std::mem::take(&mut group.gathering);
                writes.put(EXCHANGE, &chunk_key(&group.name, epoch), &chunk.encode());
                group.in_epochs.push_back((epoch, Arc::new(chunk)));
            }
        }
    }
    /// An epoch is committed: what it holds may leave.
    pub fn committed(&mut self, epoch: u64) {
        for group in &mut self.groups {
            while group.in_epochs.front().is_some_and(|(stored, _)| *stored <= epoch) {
                if let Some((stored, chunk)) = group.in_epochs.pop_front() {
                    group.owe(stored, chunk);
                }
            }
            group.release();
        }
    }
    /// Sends what may be sent.
    pub fn poll(&mut self, out: &mut Vec<Request>) {
        if !self.gated {
            self.groups.iter_mut().for_each(|group| group.send(out));
        }
    }
}
