//! One numbered manifest: what the folder held after one step of one writer.

use std::path::Path;

use onceward_connector::ConnectorError;
use onceward_protocol::{Fence, Marker, Position, SinkIdentity};
use serde::{Deserialize, Serialize};

/// The manifest version this build writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// What a step was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A writer took the fence.
    Open,
    /// The marker was created.
    Create,
    /// A table was written, or the marker moved past rows that need no table.
    Table,
}

/// A file of rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Table {
    /// Its name in the sink's folder.
    pub file: String,
    /// Its name in the staging folder until it is published.
    pub staged: String,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// The xxh3-64 of its bytes, in hexadecimal.
    pub digest: String,
}

/// The marker's position as it stands in a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredPosition {
    /// See [`Position`].
    pub major: u64,
    /// See [`Position`].
    pub minor: u32,
}

impl From<Position> for StoredPosition {
    fn from(position: Position) -> Self {
        StoredPosition { major: position.major, minor: position.minor }
    }
}

/// A manifest. Its number is its name; a number is never freed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// Its number, as in its name.
    pub number: u64,
    /// What the step was.
    pub kind: Kind,
    /// The creation of the pipeline, in hexadecimal.
    pub creation: String,
    /// The sink's name.
    pub sink: String,
    /// The partition's name for people.
    pub partition: String,
    /// The partition's identity, in hexadecimal.
    pub partition_id: String,
    /// The fence of the writer, in hexadecimal.
    pub fence: String,
    /// The marker's position; `null` while there is no marker.
    pub position: Option<StoredPosition>,
    /// How many tables there are up to here.
    pub tables: u64,
    /// The table of this step, if it wrote one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub table: Option<Table>,
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl Manifest {
    /// The step after `last`, made under `fence`; the marker is carried on.
    pub fn after(last: Option<&Manifest>, identity: &SinkIdentity, fence: Fence, kind: Kind) -> Self {
        Manifest {
            version: VERSION,
            number: last.map_or(0, |last| last.number) + 1,
            kind,
            creation: identity.partition.creation().to_string(),
            sink: identity.sink.clone(),
            partition: identity.partition.label(),
            partition_id: hex(&identity.partition.encode()),
            fence: fence.to_string(),
            position: last.and_then(|last| last.position),
            tables: last.map_or(0, |last| last.tables),
            table: None,
        }
    }
    /// The marker as of this step.
    pub fn marker(&self) -> Option<Marker> {
        let position = self.position?;
        let fence = Fence(u128::from_str_radix(&self.fence, 16).ok()?);
        Some(Marker { position: Position::new(position.major, position.minor), fence })
    }
    /// Whether it was made under `fence`.
    pub fn is_under(&self, fence: Fence) -> bool {
        self.fence == fence.to_string()
    }
    /// Bytes as stored.
    pub fn encode(&self) -> Result<Vec<u8>, ConnectorError> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| {
            ConnectorError::new("OW-3108", format!("a manifest cannot be written: {error}"))
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }
    /// Reads a manifest and checks that it is the one its name says, of the partition expected.
    pub fn decode(
        bytes: &[u8],
        number: u64,
        identity: &SinkIdentity,
        path: &Path,
    ) -> Result<Self, ConnectorError> {
        let unreadable = |found: String| {
            ConnectorError::new(
                "OW-3108",
                format!(
                    "the manifest {} {found}. Manifests are written once and never changed: restore it from a copy, or use \
                     another `path` and reset the pipeline",
                    path.display()
                ),
            )
        };
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } =
            serde_json::from_slice(bytes).map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        if version > VERSION {
            return Err(unreadable(format!(
                "has version {version}, but this build knows versions up to {VERSION}: run the newer build that wrote it"
            )));
        }
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        if manifest.number != number {
            return Err(unreadable(format!("says it is number {}", manifest.number)));
        }
        let id = hex(&identity.partition.encode());
        if manifest.partition_id != id || manifest.sink != identity.sink {
            return Err(unreadable(format!(
                "belongs to partition {} of sink {} (creation {}), expected partition {} of sink {} (creation {})",
                manifest.partition,
                manifest.sink,
                manifest.creation,
                identity.partition.label(),
                identity.sink,
                identity.partition.creation()
            )));
        }
        Ok(manifest)
    }
}
