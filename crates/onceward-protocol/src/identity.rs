//! Who is who: creations, branches, partitions and the names targets know us by.

use std::fmt;
use std::sync::Arc;

/// Minted once when a pipeline is created or reset (INCARNATION). Part of partition ids, message
/// ids, tokens and markers, so that a re-created pipeline can never be mistaken for its forerunner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Creation(pub u128);

/// Minted by every restore of the store (INCARNATION). Part of generations, sessions and fences.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Branch(pub u64);

impl fmt::Display for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Creation({self})")
    }
}

impl std::str::FromStr for Creation {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Creation)
    }
}

/// What a partition is, apart from the pipeline it belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PartitionKind {
    /// The pipeline's own record: creation, layout, status.
    Pipeline,
    /// One partition of a source. `creation` is the source's own: new for every reset, rewind or
    /// accepted re-creation.
    Source {
        /// The source's name in the manifest.
        source: String,
        /// The source's own creation.
        creation: Creation,
        /// The name the connector gave this partition, for example a file's path.
        name: String,
    },
    /// One key range of a computation, numbered within layout version `layout`.
    Range {
        /// The computation's name in the manifest.
        computation: String,
        /// The layout version that created the range; never reused (DEFAULT-DENY).
        layout: u32,
        /// The range's number within its layout version.
        index: u32,
    },
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Inner {
    creation: Creation,
    kind: PartitionKind,
}

/// The globally unique, never reused name of a partition (ID-UNIQUE, INCARNATION). Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(Arc<Inner>);

impl PartitionId {
    /// A partition of the pipeline created as `creation`.
    pub fn new(creation: Creation, kind: PartitionKind) -> Self {
        PartitionId(Arc::new(Inner { creation, kind }))
    }
    /// The creation of the pipeline this partition belongs to.
    pub fn creation(&self) -> Creation {
        self.0.creation
    }
    /// What this partition is.
    pub fn kind(&self) -> &PartitionKind {
        &self.0.kind
    }
    /// A short name for people: `flights/data/flights-01.csv.zst`, `by_carrier[3]`.
    pub fn label(&self) -> String {
        match &self.0.kind {
            PartitionKind::Pipeline => "pipeline".to_owned(),
            PartitionKind::Source { source, name, .. } => format!("{source}/{name}"),
            PartitionKind::Range { computation, layout: 1, index } => format!("{computation}[{index}]"),
            PartitionKind::Range { computation, layout, index } => {
                format!("{computation}[v{layout}.{index}]")
            }
        }
    }
    /// The self-delimiting, injective byte form, as stored and as part of message ids.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&self.0.creation.0.to_be_bytes());
        match &self.0.kind {
            PartitionKind::Pipeline => out.push(0),
            PartitionKind::Source { source, creation, name } => {
                out.push(1);
                crate::codec::put_str(&mut out, source);
                out.extend_from_slice(&creation.0.to_be_bytes());
                crate::codec::put_str(&mut out, name);
            }
            PartitionKind::Range { computation, layout, index } => {
                out.push(2);
                crate::codec::put_str(&mut out, computation);
                out.extend_from_slice(&layout.to_be_bytes());
                out.extend_from_slice(&index.to_be_bytes());
            }
        }
        out
    }
    /// The inverse of [`PartitionId::encode`]; `None` for bytes it did not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = crate::codec::Reader::new(bytes);
        let creation = Creation(u128::from_be_bytes(input.array()?));
        let kind = match input.byte()? {
            0 => PartitionKind::Pipeline,
            1 => PartitionKind::Source {
                source: input.str()?.to_owned(),
                creation: Creation(u128::from_be_bytes(input.array()?)),
                name: input.str()?.to_owned(),
            },
            2 => PartitionKind::Range {
                computation: input.str()?.to_owned(),
                layout: u32::from_be_bytes(input.array()?),
                index: u32::from_be_bytes(input.array()?),
            },
            _ => return None,
        };
        input.is_empty().then(|| PartitionId::new(creation, kind))
    }
}

impl fmt::Debug for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}
impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

/// What a target knows us by (SINK-NAME): never less than creation, sink name and partition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SinkIdentity {
    /// The pipeline's name, for messages to people; not part of the identity's uniqueness.
    pub pipeline: String,
    /// The sink's name in the manifest.
    pub sink: String,
    /// The partition whose outbox this sink empties; contains the creation.
    pub partition: PartitionId,
    /// A short stable name for files and the like: `by_carrier-0003`.
    pub partition_slug: String,
}
