//! The layout: which partitions a pipeline has. Written at its first start and with every re-cutting, and read
//! ever after, so that lanes, keys and identities never move under stored state (DEFAULT-DENY, INCARNATION).

use std::collections::BTreeMap;

use onceward_protocol::chain::Head;
use onceward_protocol::codec::{Reader, put_str, put_varint};
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::recut::Recut;
use onceward_protocol::state::PipelineState;
use onceward_protocol::{Creation, Generation, KeyRange, PartitionId};
use onceward_store::{EpochCommit, TableId, WriteBatch};

/// Version of the record's byte form. Version 1 had equal ranges and a completed flag, version 2 no wanted numbers.
const VERSION: u8 = 3;

/// The key of the record in the pipeline partition's META table.
pub const LAYOUT_KEY: &[u8] = b"layout";

/// A source's partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutSource {
    /// Name in the manifest.
    pub name: String,
    /// The source's own creation.
    pub creation: Creation,
    /// The connector's partition names, in the order they were found.
    pub partitions: Vec<String>,
    /// Number of the first of them; the others follow. Given by [`Layout::new`] and [`Layout::add_source`].
    pub first: u32,
}

/// One key range of a computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutRange {
    /// The partition's number, never used for another one.
    pub number: u32,
    /// The layout version that created it.
    pub version: u32,
    /// Its number within that version.
    pub index: u32,
    /// What it owns.
    pub range: KeyRange,
    /// Whether it was re-cut and only drains its outbox (ANCESTOR-GATE).
    pub retired: bool,
}

/// A keyed computation's partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutKeyed {
    /// Name in the manifest.
    pub name: String,
    /// Live ranges in order of key, tiling the key space; then retired ones that are not drained yet.
    pub ranges: Vec<LayoutRange>,
    /// How many ranges a user asked for by hand; `None` leaves it to the manifest.
    pub wanted: Option<u32>,
}

impl LayoutKeyed {
    /// The ranges that take messages, in order of key.
    pub fn live(&self) -> impl Iterator<Item = &LayoutRange> {
        self.ranges.iter().filter(|range| !range.retired)
    }
    /// ANCESTOR-GATE: whether an overlapping retired ancestor of `range`, however far, is undrained. Ranges of one
    /// version tile the key space, so a retired range that overlaps and is older is an ancestor.
    pub fn is_gated(&self, range: &LayoutRange) -> bool {
        self.ranges
            .iter()
            .any(|other| other.retired && other.version < range.version && other.range.overlaps(range.range))
    }
}

/// The pipeline's own record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Minted when the pipeline was created.
    pub creation: Creation,
    /// The pipeline's name.
    pub pipeline: String,
    /// Grows with every change of the partitions; part of what a consumer persists (DEFAULT-DENY).
    pub version: u32,
    /// The next partition number.
    pub next_number: u32,
    /// The manifest in canonical form, to notice a change that would reinterpret state.
    pub canonical: String,
    /// In manifest order.
    pub sources: Vec<LayoutSource>,
    /// In manifest order.
    pub keyed: Vec<LayoutKeyed>,
    /// Where the pipeline stands.
    pub state: PipelineState,
    /// Rows delivered by partitions that are drained and gone, by sink.
    pub delivered: BTreeMap<String, u64>,
}

/// What one partition is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// A source partition.
    Source {
        /// Index into the manifest's sources.
        source: usize,
        /// The connector's name for it.
        name: String,
    },
    /// A key range.
    Keyed {
        /// Index into the plan's keyed computations.
        keyed: usize,
        /// Which range.
        range: LayoutRange,
    },
}

/// One partition by its number in this layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutPartition {
    /// Its number, the same over all versions of the layout.
    pub number: u32,
    /// Its identity.
    pub id: PartitionId,
    /// What it is for.
    pub role: Role,
}

impl Layout {
    /// The first layout of a pipeline. `keyed` is names and numbers of equal ranges.
    pub fn new<'a>(
        creation: Creation,
        pipeline: String,
        canonical: String,
        sources: Vec<LayoutSource>,
        keyed: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Self {
        let mut layout = Layout {
            creation,
            pipeline,
            version: 1,
            next_number: 0,
            canonical,
            sources: Vec::new(),
            keyed: Vec::new(),
            state: PipelineState::Working,
            delivered: BTreeMap::new(),
        };
        sources.into_iter().for_each(|source| layout.add_source(source));
        for (name, count) in keyed {
            layout.add_keyed(name, count);
        }
        layout
    }
    /// Adds a source.
    pub fn add_source(&mut self, source: LayoutSource) {
        let first = self.next_number;
        self.next_number += source.partitions.len() as u32;
        self.sources.push(LayoutSource { first, ..source });
    }
    /// The same layout with its parts in the order of these names, as a manifest has them; parts that are not named are
    /// left out, names that it does not have are skipped.
    #[must_use]
    pub fn in_order_of<'a>(
        mut self,
        sources: impl IntoIterator<Item = &'a str>,
        keyed: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = std::mem::take(&mut self.sources);
        let find = |name: &str| known.iter().find(|source| source.name == name).cloned();
        self.sources = sources.into_iter().filter_map(find).collect();
        let known = std::mem::take(&mut self.keyed);
        let find = |name: &str| known.iter().find(|keyed| keyed.name == name).cloned();
        self.keyed = keyed.into_iter().filter_map(find).collect();
        self
    }
    /// Adds a keyed computation of `count` equal ranges, created by the current version.
    pub fn add_keyed(&mut self, name: &str, count: u32) {
        let first = self.next_number;
        let ranges: Vec<LayoutRange> = KeyRange::split(count)
            .into_iter()
            .zip(0..)
            .map(|(range, index)| LayoutRange {
                number: first + index,
                version: self.version,
                index,
                range,
                retired: false,
            })
            .collect();
        self.next_number += ranges.len() as u32;
        self.keyed.push(LayoutKeyed { name: name.to_owned(), ranges, wanted: None });
    }
    /// The layout after a step of re-cutting (RECUT-ATOMIC): the parents are retired, the children take their place,
    /// everything else stays. `None` if the step does not fit the ranges that are live.
    pub fn recut(&self, keyed: usize, recut: &Recut) -> Option<Layout> {
        recut.check().ok()?;
        let mut layout = self.clone();
        layout.version += 1;
        let computation = layout.keyed.get_mut(keyed)?;
        let is_parent = |range: &LayoutRange| !range.retired && recut.parents.contains(&range.range);
        let at = computation.ranges.iter().position(is_parent)?;
        let parents: Vec<LayoutRange> = computation.ranges.iter().copied().filter(is_parent).collect();
        if parents.len() != recut.parents.len() {
            return None;
        }
        computation.ranges.retain(|range| !is_parent(range));
        for (range, index) in recut.children.iter().zip(0..) {
            let child = LayoutRange {
                number: self.next_number + index,
                version: layout.version,
                index,
                range: *range,
                retired: false,
            };
            computation.ranges.insert(at + index as usize, child);
        }
        let retired = parents.into_iter().map(|range| LayoutRange { retired: true, ..range });
        computation.ranges.extend(retired);
        layout.next_number += recut.children.len() as u32;
        Some(layout)
    }
    /// The layout without a retired range that is drained; its rows count on under `delivered`. `None` if there is no
    /// such range.
    pub fn without_drained(&self, number: u32, delivered: &BTreeMap<String, u64>) -> Option<Layout> {
        let mut layout = self.clone();
        layout.version += 1;
        let computation = layout
            .keyed
            .iter_mut()
            .find(|keyed| keyed.ranges.iter().any(|range| range.number == number && range.retired))?;
        computation.ranges.retain(|range| range.number != number);
        for (sink, rows) in delivered {
            *layout.delivered.entry(sink.clone()).or_insert(0) += rows;
        }
        Some(layout)
    }
    /// The partition that holds this record.
    pub fn pipeline_partition(&self) -> PartitionId {
        PartitionId::new(self.creation, PartitionKind::Pipeline)
    }
    /// All partitions, sources first.
    pub fn partitions(&self) -> Vec<LayoutPartition> {
        let sources = (0..self.sources.len()).flat_map(|source| self.source_partitions(source));
        let keyed = (0..self.keyed.len()).flat_map(|keyed| self.keyed_partitions(keyed));
        sources.chain(keyed).collect()
    }
    /// The partitions of one source, by its place.
    pub fn source_partitions(&self, index: usize) -> impl Iterator<Item = LayoutPartition> {
        let source = &self.sources[index];
        source.partitions.iter().zip(source.first..).map(move |(name, number)| {
            let kind = PartitionKind::Source {
                source: source.name.clone(),
                creation: source.creation,
                name: name.clone(),
            };
            LayoutPartition {
                number,
                id: PartitionId::new(self.creation, kind),
                role: Role::Source { source: index, name: name.clone() },
            }
        })
    }
    /// The ranges of one keyed computation, by its place.
    pub fn keyed_partitions(&self, keyed: usize) -> impl Iterator<Item = LayoutPartition> {
        let computation = &self.keyed[keyed];
        computation.ranges.iter().map(move |range| LayoutPartition {
            number: range.number,
            id: self.range_id(&computation.name, range),
            role: Role::Keyed { keyed, range: *range },
        })
    }
    /// The identity of a range.
    pub fn range_id(&self, computation: &str, range: &LayoutRange) -> PartitionId {
        let kind = PartitionKind::Range {
            computation: computation.to_owned(),
            layout: range.version,
            index: range.index,
        };
        PartitionId::new(self.creation, kind)
    }
    /// The commit that writes this record on top of `head`, under the term `generation`.
    pub fn record(&self, generation: Generation, head: Option<Head>) -> EpochCommit {
        let mut writes = WriteBatch::default();
        writes.put(TableId::META, LAYOUT_KEY, &self.encode());
        EpochCommit::after(self.pipeline_partition(), generation, head, writes)
    }
    /// A short stable name of a partition, for file names.
    pub fn slug(&self, partition: &LayoutPartition) -> String {
        match &partition.role {
            Role::Keyed { keyed, range } if range.version == 1 => {
                format!("{}-{:04}", self.keyed[*keyed].name, range.index)
            }
            Role::Keyed { keyed, range } => {
                format!("{}-v{}-{:04}", self.keyed[*keyed].name, range.version, range.index)
            }
            Role::Source { source, name } => {
                let source = &self.sources[*source];
                let index = source.partitions.iter().position(|known| known == name).unwrap_or_default();
                format!("{}-{index:04}", source.name)
            }
        }
    }
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, state_byte(self.state)];
        out.extend_from_slice(&self.creation.0.to_be_bytes());
        put_str(&mut out, &self.pipeline);
        put_varint(&mut out, u64::from(self.version));
        put_varint(&mut out, u64::from(self.next_number));
        put_str(&mut out, &self.canonical);
        put_varint(&mut out, self.sources.len() as u64);
        for source in &self.sources {
            put_str(&mut out, &source.name);
            out.extend_from_slice(&source.creation.0.to_be_bytes());
            put_varint(&mut out, source.partitions.len() as u64);
            source.partitions.iter().for_each(|name| put_str(&mut out, name));
            put_varint(&mut out, u64::from(source.first));
        }
        put_varint(&mut out, self.keyed.len() as u64);
        for keyed in &self.keyed {
            put_str(&mut out, &keyed.name);
            put_varint(&mut out, u64::from(keyed.wanted.unwrap_or(0)));
            put_varint(&mut out, keyed.ranges.len() as u64);
            for range in &keyed.ranges {
                for number in [range.number, range.version, range.index] {
                    put_varint(&mut out, u64::from(number));
                }
                out.extend_from_slice(&range.range.first.to_be_bytes());
                out.extend_from_slice(&range.range.last.to_be_bytes());
                out.push(u8::from(range.retired));
            }
        }
        put_varint(&mut out, self.delivered.len() as u64);
        for (sink, rows) in &self.delivered {
            put_str(&mut out, sink);
            put_varint(&mut out, *rows);
        }
        out
    }
    /// The inverse of [`Layout::encode`], also for records of version 1; `None` for bytes that no version wrote.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        match input.byte()? {
            1 => decode_v1(&mut input),
            version @ 2..=VERSION => decode_ranges(&mut input, version),
            _ => None,
        }
        .filter(|_| input.is_empty())
    }
}

fn state_byte(state: PipelineState) -> u8 {
    match state {
        PipelineState::Working => 0,
        PipelineState::Completed => 1,
        PipelineState::Draining => 2,
        PipelineState::Stopped => 3,
        PipelineState::Pausing => 4,
        PipelineState::Paused => 5,
    }
}

fn state_of(byte: u8) -> Option<PipelineState> {
    Some(match byte {
        0 => PipelineState::Working,
        1 => PipelineState::Completed,
        2 => PipelineState::Draining,
        3 => PipelineState::Stopped,
        4 => PipelineState::Pausing,
        5 => PipelineState::Paused,
        _ => return None,
    })
}

fn number(input: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(input.varint()?).ok()
}

fn decode_sources(input: &mut Reader<'_>, record: u8) -> Option<Vec<LayoutSource>> {
    let mut sources = Vec::new();
    let mut next = 0;
    for _ in 0..input.varint()? {
        let name = input.str()?.to_owned();
        let creation = Creation(u128::from_be_bytes(input.array()?));
        let count = input.varint()?;
        let partitions = (0..count).map(|_| input.str().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
        // Before version 3 sources were numbered one after the other.
        let first = if record > 2 { number(input)? } else { next };
        next = first + partitions.len() as u32;
        sources.push(LayoutSource { name, creation, partitions, first });
    }
    Some(sources)
}

fn decode_v1(input: &mut Reader<'_>) -> Option<Layout> {
    let state = state_of(input.byte()?)?;
    let creation = Creation(u128::from_be_bytes(input.array()?));
    let pipeline = input.str()?.to_owned();
    let canonical = input.str()?.to_owned();
    let sources = decode_sources(input, 1)?;
    let mut layout = Layout::new(creation, pipeline, canonical, sources, []);
    layout.state = state;
    for _ in 0..input.varint()? {
        let name = input.str()?.to_owned();
        // There was one version only.
        let _version = input.varint()?;
        layout.add_keyed(&name, number(input)?);
    }
    Some(layout)
}

fn decode_ranges(input: &mut Reader<'_>, record: u8) -> Option<Layout> {
    let state = state_of(input.byte()?)?;
    let creation = Creation(u128::from_be_bytes(input.array()?));
    let pipeline = input.str()?.to_owned();
    let version = number(input)?;
    let next_number = number(input)?;
    let canonical = input.str()?.to_owned();
    let sources = decode_sources(input, record)?;
    let mut keyed = Vec::new();
    for _ in 0..input.varint()? {
        let name = input.str()?.to_owned();
        let wanted = if record > 2 { Some(number(input)?).filter(|wanted| *wanted > 0) } else { None };
        let mut ranges = Vec::new();
        for _ in 0..input.varint()? {
            ranges.push(LayoutRange {
                number: number(input)?,
                version: number(input)?,
                index: number(input)?,
                range: KeyRange { first: input.u64()?, last: input.u64()? },
                retired: input.byte()? != 0,
            });
        }
        keyed.push(LayoutKeyed { name, ranges, wanted });
    }
    let mut delivered = BTreeMap::new();
    for _ in 0..input.varint()? {
        let sink = input.str()?.to_owned();
        delivered.insert(sink, input.varint()?);
    }
    Some(Layout { creation, pipeline, version, next_number, canonical, sources, keyed, state, delivered })
}
