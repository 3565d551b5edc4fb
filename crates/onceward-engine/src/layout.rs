//! The layout: which partitions a pipeline has. Written once, at its first start, and read ever after,
//! so that lanes, keys and identities never move under stored state (DEFAULT-DENY, INCARNATION).

use onceward_protocol::codec::{Reader, put_str, put_varint};
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Creation, PartitionId};

/// Version of the record's byte form.
const VERSION: u8 = 1;

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
}

/// A keyed computation's partitions: equal key ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutKeyed {
    /// Name in the manifest.
    pub name: String,
    /// Layout version; only grows.
    pub version: u32,
    /// Number of key ranges.
    pub count: u32,
}

/// The pipeline's own record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Minted when the pipeline was created.
    pub creation: Creation,
    /// The pipeline's name.
    pub pipeline: String,
    /// The manifest in canonical form, to notice a change that would reinterpret state.
    pub canonical: String,
    /// In manifest order.
    pub sources: Vec<LayoutSource>,
    /// In manifest order.
    pub keyed: Vec<LayoutKeyed>,
    /// Whether everything was delivered and the pipeline has ended for good.
    pub completed: bool,
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
        index: u32,
    },
}

/// One partition by its number in this layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutPartition {
    /// Position in [`Layout::partitions`].
    pub number: u32,
    /// Its identity.
    pub id: PartitionId,
    /// What it is for.
    pub role: Role,
}

impl Layout {
    /// The partition that holds this record.
    pub fn pipeline_partition(&self) -> PartitionId {
        PartitionId::new(self.creation, PartitionKind::Pipeline)
    }
    /// All partitions, sources first, numbered.
    pub fn partitions(&self) -> Vec<LayoutPartition> {
        let mut all = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            for name in &source.partitions {
                let kind = PartitionKind::Source {
                    source: source.name.clone(),
                    creation: source.creation,
                    name: name.clone(),
                };
                all.push((kind, Role::Source { source: index, name: name.clone() }));
            }
        }
        for (keyed, computation) in self.keyed.iter().enumerate() {
            for index in 0..computation.count {
                let kind = PartitionKind::Range {
                    computation: computation.name.clone(),
                    layout: computation.version,
                    index,
                };
                all.push((kind, Role::Keyed { keyed, index }));
            }
        }
        all.into_iter()
            .enumerate()
            .map(|(number, (kind, role))| LayoutPartition {
                number: number as u32,
                id: PartitionId::new(self.creation, kind),
                role,
            })
            .collect()
    }
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.completed)];
        out.extend_from_slice(&self.creation.0.to_be_bytes());
        put_str(&mut out, &self.pipeline);
        put_str(&mut out, &self.canonical);
        put_varint(&mut out, self.sources.len() as u64);
        for source in &self.sources {
            put_str(&mut out, &source.name);
            out.extend_from_slice(&source.creation.0.to_be_bytes());
            put_varint(&mut out, source.partitions.len() as u64);
            source.partitions.iter().for_each(|name| put_str(&mut out, name));
        }
        put_varint(&mut out, self.keyed.len() as u64);
        for keyed in &self.keyed {
            put_str(&mut out, &keyed.name);
            put_varint(&mut out, u64::from(keyed.version));
            put_varint(&mut out, u64::from(keyed.count));
        }
        out
    }
    /// The inverse of [`Layout::encode`]; `None` for bytes this version did not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        if input.byte()? != VERSION {
            return None;
        }
        let completed = input.byte()? != 0;
        let creation = Creation(u128::from_be_bytes(input.array()?));
        let pipeline = input.str()?.to_owned();
        let canonical = input.str()?.to_owned();
        let mut sources = Vec::new();
        for _ in 0..input.varint()? {
            let name = input.str()?.to_owned();
            let creation = Creation(u128::from_be_bytes(input.array()?));
            let count = input.varint()?;
            let partitions =
                (0..count).map(|_| input.str().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
            sources.push(LayoutSource { name, creation, partitions });
        }
        let mut keyed = Vec::new();
        for _ in 0..input.varint()? {
            let name = input.str()?.to_owned();
            let version = u32::try_from(input.varint()?).ok()?;
            let count = u32::try_from(input.varint()?).ok()?;
            keyed.push(LayoutKeyed { name, version, count });
        }
        input.is_empty().then_some(Layout { creation, pipeline, canonical, sources, keyed, completed })
    }
}
