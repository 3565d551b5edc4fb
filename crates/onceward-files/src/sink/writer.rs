//! The writer of one partition: fence, marker and tables, in terms of numbered manifests.

use std::sync::Arc;

use onceward_connector::{ConnectorError, ProgressWriter, SinkBlock, TargetError};
use onceward_protocol::{Fence, Marker};

use super::claim;
use super::encode::Encoder;
use super::error::definite;
use super::ledger::{Append, Ledger, digest};
use super::manifest::{Kind, Manifest, Table};

/// How often an open tries again when other writers take the number it wants.
const MAX_OPEN_ATTEMPTS: usize = 1000;

/// What the writer knows of the last manifest.
enum Known {
    /// Nothing: read it before use.
    Nothing,
    /// This one, unless another writer came since; then our next number is taken.
    Last(Box<Manifest>),
    /// An outcome is unknown: nothing may be written before the fence is taken again.
    Unclear,
}

/// See [`ProgressWriter`].
pub struct FileWriter {
    ledger: Ledger,
    encoder: Arc<Encoder>,
    known: Known,
}

impl FileWriter {
    /// A writer on a ledger.
    pub fn new(ledger: Ledger, encoder: Arc<Encoder>) -> Self {
        FileWriter { ledger, encoder, known: Known::Nothing }
    }

    /// The last manifest as far as known; what is stale here fails at the next number.
    fn last(&mut self) -> Result<Option<Manifest>, TargetError> {
        match &self.known {
            Known::Last(manifest) => Ok(Some(manifest.as_ref().clone())),
            Known::Nothing => self.ledger.last(),
            Known::Unclear => Err(TargetError::Unknown(
                "an earlier write to this folder has an unknown outcome; take the fence and read the marker first".into(),
            )),
        }
    }

    /// Creates the next manifest under `fence`, or says who holds the target.
    fn commit(&mut self, manifest: Manifest, fence: Fence) -> Result<(), TargetError> {
        match self.ledger.append(&manifest, fence) {
            Ok(Append::Committed) => {
                self.known = Known::Last(Box::new(manifest));
                Ok(())
            }
            Ok(Append::Taken(other)) => {
                self.known = Known::Nothing;
                Err(fenced(&other))
            }
            Err(error) => {
                if matches!(error, TargetError::Unknown(_)) {
                    self.known = Known::Unclear;
                }
                Err(error)
            }
        }
    }

    /// The next table's name must be free before the table is committed: nothing is ever overwritten.
    fn check_name_free(&mut self, file: &str, last: u64) -> Result<(), TargetError> {
        let visible = self.ledger.layout.folder().join(file);
        match self.ledger.storage.exists(&visible) {
            Ok(false) => Ok(()),
            Ok(true) => match self.ledger.last()? {
                // A newer open has written the table of that name.
                Some(newer) if newer.number > last => {
                    self.known = Known::Nothing;
                    Err(fenced(&newer))
                }
                _ => Err(self.ledger.name_taken(file)),
            },
            Err(error) => Err(definite("looking at", &visible, &error)),
        }
    }

    fn open_next(&mut self, fence: Fence) -> Result<Option<u64>, TargetError> {
        let last = self.ledger.last()?;
        let open = Manifest::after(last.as_ref(), &self.ledger.identity, fence, Kind::Open);
        let number = open.number;
        match self.ledger.append(&open, fence)? {
            Append::Committed => {
                self.known = Known::Last(Box::new(open));
                Ok(Some(number))
            }
            Append::Taken(_) => Ok(None),
        }
    }
}

/// Another writer holds the target.
fn fenced(last: &Manifest) -> TargetError {
    TargetError::Fenced(format!(
        "another open of sink {} holds partition {}: manifest {} carries its fence {}",
        last.sink, last.partition, last.number, last.fence
    ))
}

impl ProgressWriter for FileWriter {
    fn take_fence(&mut self, fence: Fence) -> Result<(), TargetError> {
        self.known = Known::Unclear;
        let storage = self.ledger.storage.clone();
        claim::make_folders(storage.as_ref(), &self.ledger.layout)?;
        claim::claim(storage.as_ref(), &self.ledger.layout, &self.ledger.identity, fence)?;
        claim::probe(storage.as_ref(), &self.ledger.layout, fence)?;
        for _ in 0..MAX_OPEN_ATTEMPTS {
            if let Some(number) = self.open_next(fence)? {
                let recovered = self.ledger.recover(Some(number));
                if recovered.is_err() {
                    self.known = Known::Unclear;
                }
                return recovered;
            }
        }
        Err(TargetError::Fenced(format!(
            "other writers took {MAX_OPEN_ATTEMPTS} manifest numbers in {} while this one tried to open it",
            self.ledger.layout.manifests().display()
        )))
    }

    fn read_marker(&mut self) -> Result<Option<Marker>, TargetError> {
        let last = self.ledger.last()?;
        self.ledger.recover(None)?;
        let marker = last.as_ref().and_then(Manifest::marker);
        if !matches!(self.known, Known::Unclear) {
            self.known = last.map_or(Known::Nothing, |last| Known::Last(Box::new(last)));
        }
        Ok(marker)
    }

    fn create_marker(&mut self, marker: Marker) -> Result<(), TargetError> {
        let Some(last) = self.last()? else {
            return Err(TargetError::Fenced("no open holds this target: take the fence first".into()));
        };
        if !last.is_under(marker.fence) {
            return Err(fenced(&last));
        }
        match last.marker() {
            Some(there) if there == marker => return Ok(()),
            Some(there) => {
                return Err(TargetError::Unknown(format!(
                    "a marker at {} is there already, not the one at {} that was to be created; read it again",
                    there.position, marker.position
                )));
            }
            None => {}
        }
        let mut next = Manifest::after(Some(&last), &self.ledger.identity, marker.fence, Kind::Create);
        next.position = Some(marker.position.into());
        self.commit(next, marker.fence)
    }

    fn write(&mut self, block: &SinkBlock, expected: Marker, next: Marker) -> Result<(), TargetError> {
        let last = self.last()?;
        let Some(last) = last else {
            return Err(TargetError::Fenced("no open holds this target: take the fence first".into()));
        };
        // MARKER-CAS, first half: position and fence as expected. The second half is the number.
        if !last.is_under(expected.fence) || next.fence != expected.fence {
            return Err(fenced(&last));
        }
        if last.marker() != Some(expected) || next.position < expected.position {
            let at = last.marker().map_or("absent".to_owned(), |marker| format!("at {}", marker.position));
            return Err(TargetError::Fenced(format!(
                "the progress marker is {at}, so it cannot move from {} to {}",
                expected.position, next.position
            )));
        }
        let fence = next.fence;
        let mut manifest = Manifest::after(Some(&last), &self.ledger.identity, fence, Kind::Table);
        manifest.position = Some(next.position.into());
        if block.is_empty() {
            return self.commit(manifest, fence);
        }
        let content = self.encoder.encode(block)?;
        manifest.tables += 1;
        let table = Table {
            file: self.ledger.layout.table_name(manifest.tables),
            staged: self.ledger.layout.staged_table_name(manifest.number, fence),
            rows: block.len() as u64,
            bytes: content.len() as u64,
            digest: digest(&content),
        };
        self.check_name_free(&table.file, last.number)?;
        manifest.table = Some(table.clone());
        self.ledger.stage(&table.staged, &content)?;
        if let Err(error) = self.commit(manifest, fence) {
            // Only what is known to have no effect is taken away (files of an unknown attempt stay).
            if !matches!(error, TargetError::Unknown(_)) {
                self.ledger.discard(&table.staged);
            }
            return Err(error);
        }
        self.ledger.publish(&table).map_err(|error| {
            // Committed, but not visible yet: the next open rolls it forward.
            self.known = Known::Unclear;
            match error {
                TargetError::Definite(ConnectorError { message, .. }) => TargetError::Unknown(message),
                other => other,
            }
        })
    }
}
