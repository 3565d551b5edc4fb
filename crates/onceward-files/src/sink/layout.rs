//! Where everything lies in a sink's folder.
//!
//! ```text
//! <dir>/by_carrier-0003-00000001.jsonl            a published table
//! <dir>/.onceward/<sink>/owner.json               which pipeline creation owns the folder
//! <dir>/.onceward/<sink>/by_carrier-0003/00000007.json          numbered manifests
//! <dir>/.onceward/<sink>/by_carrier-0003/staging/               files without effect yet
//! ```

use std::path::{Path, PathBuf};

use onceward_connector::ConnectorError;
use onceward_protocol::{Fence, SinkIdentity};

/// The folders of one partition of one sink.
#[derive(Clone, Debug)]
pub struct Layout {
    folder: PathBuf,
    sink: PathBuf,
    partition: PathBuf,
    staging: PathBuf,
    slug: String,
    extension: String,
}

impl Layout {
    /// The layout below `folder`; tables get `extension`, for example `jsonl.gz`.
    pub fn new(folder: &Path, identity: &SinkIdentity, extension: String) -> Result<Self, ConnectorError> {
        for name in [&identity.sink, &identity.partition_slug] {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
                return Err(ConnectorError::new(
                    "OW-3107",
                    format!(
                        "`{name}` cannot be part of a file name. Expected letters, digits, `-`, `_` and inner dots: rename \
                         the sink or computation"
                    ),
                ));
            }
        }
        let sink = folder.join(".onceward").join(&identity.sink);
        let partition = sink.join(&identity.partition_slug);
        let staging = partition.join("staging");
        let slug = identity.partition_slug.clone();
        Ok(Layout { folder: folder.to_owned(), sink, partition, staging, slug, extension })
    }
    /// Where tables appear.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// Where the manifests are.
    pub fn manifests(&self) -> &Path {
        &self.partition
    }
    /// Where files without effect are.
    pub fn staging(&self) -> &Path {
        &self.staging
    }
    /// Every folder whose entries must be durable, outermost first.
    pub fn folders(&self) -> [&Path; 4] {
        [&self.folder, &self.sink, &self.partition, &self.staging]
    }
    /// The owner file.
    pub fn owner(&self) -> PathBuf {
        self.sink.join("owner.json")
    }
    /// A manifest by number.
    pub fn manifest(&self, number: u64) -> PathBuf {
        self.partition.join(format!("{number:08}.json"))
    }
    /// The number in a manifest's name; `None` for other names.
    pub fn manifest_number(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".json")?;
        (digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse().ok())?
    }
    /// The name of a table in the sink's folder.
    pub fn table_name(&self, table: u64) -> String {
        format!("{}-{table:08}.{}", self.slug, self.extension)
    }
    /// The name of a staged file of the attempt at `number` under `fence`.
    pub fn staged_name(number: u64, fence: Fence, extension: &str) -> String {
        format!("{number:08}-{fence}.{extension}")
    }
    /// The name of the staged table of the attempt at `number` under `fence`.
    pub fn staged_table_name(&self, number: u64, fence: Fence) -> String {
        Layout::staged_name(number, fence, &self.extension)
    }
    /// The number in a staged file's name; `None` for names the sink does not give.
    pub fn staged_number(name: &str) -> Option<u64> {
        let (digits, _) = name.split_once('-')?;
        (digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse().ok())?
    }
}
