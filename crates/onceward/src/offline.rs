//! What can be asked of a pipeline while no process runs it: the store is opened for it, and closed again.

use std::path::Path;

use onceward_engine::Layout;
use onceward_protocol::state::{Demand, PipelineState, next};
use onceward_store::{EmbeddedStore, Operation, Options, StoreHandle};

use crate::error::RunError;
use crate::prepare::{Term, find_layout, newest_epoch};

/// What a data directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overview {
    /// The pipeline's name.
    pub pipeline: String,
    /// Where it stood when its last process ended. `Working` means that the process ended without saying so.
    pub state: PipelineState,
    /// Version of the layout.
    pub layout: u32,
    /// Source partitions and key ranges.
    pub partitions: usize,
    /// Largest committed epoch of any partition, 0 before the first.
    pub epoch: u64,
}

fn open(data_dir: &Path) -> Result<(EmbeddedStore, Layout), RunError> {
    let nothing = || RunError::NoPipeline(data_dir.display().to_string());
    // A look must not make a store where there is none.
    if !EmbeddedStore::exists(data_dir) {
        return Err(nothing());
    }
    let store = EmbeddedStore::open(data_dir, Options::default())?;
    match find_layout(&store.handle())? {
        Some((layout, _)) => Ok((store, layout)),
        None => Err(nothing()),
    }
}

/// Looks into a data directory. Refused while a process runs the pipeline.
pub fn overview(data_dir: &Path) -> Result<Overview, RunError> {
    let (store, layout) = open(data_dir)?;
    let overview = Overview {
        pipeline: layout.pipeline.clone(),
        state: layout.state,
        layout: layout.version,
        partitions: layout.partitions().len(),
        epoch: newest_epoch(&store.handle(), &layout)?,
    };
    store.close();
    Ok(overview)
}

/// Asks a pipeline that no process runs for another state. Answers where it stands then.
///
/// Nothing is under way, so a pause and a stop are reached at once; the leases that a killed process left are revoked in
/// the same transaction. A drain is refused while something may be under way: only a run can finish it.
pub fn demand(data_dir: &Path, demand: Demand) -> Result<PipelineState, RunError> {
    let (store, layout) = open(data_dir)?;
    let refused = |what: &str| RunError::NotPossible {
        pipeline: layout.pipeline.clone(),
        state: layout.state,
        what: what.to_owned(),
    };
    let state = match (layout.state, demand) {
        (PipelineState::Working | PipelineState::Draining, Demand::Stop { drain: true }) => {
            return Err(refused(
                "no process runs it, so nothing can be drained; `onceward run` goes on, `onceward stop --no-drain` marks it as stopped",
            ));
        }
        (state, demand) => next(state, demand).map_err(refused)?,
    };
    let state = match state {
        PipelineState::Pausing => PipelineState::Paused,
        // It may run again, and nothing does.
        PipelineState::Working => PipelineState::Stopped,
        state => state,
    };
    let result = match demand {
        Demand::Reset => return reset(store, data_dir).map(|()| PipelineState::Stopped),
        _ if state == layout.state => Ok(()),
        _ => write(&store.handle(), &Layout { state, ..layout }),
    };
    store.close();
    result.map(|()| state)
}

/// One transaction: no lease is left, and the record says where the pipeline stands.
fn write(store: &StoreHandle, layout: &Layout) -> Result<(), RunError> {
    let revoked = layout.partitions().into_iter().map(|partition| Operation::Revoke(partition.id));
    let mut term = Term::take(store, &layout.pipeline_partition())?;
    term.write(store, revoked.collect(), layout)
}

/// Removes the store. It is renamed first: whatever happens on the way, what is found under its name is whole or gone.
fn reset(store: EmbeddedStore, data_dir: &Path) -> Result<(), RunError> {
    store.close();
    let failed = |error: std::io::Error| RunError::Reset {
        data_dir: data_dir.display().to_string(),
        reason: error.to_string(),
    };
    let mut discarded = data_dir.as_os_str().to_owned();
    discarded.push(".discarded");
    if Path::new(&discarded).exists() {
        std::fs::remove_dir_all(&discarded).map_err(failed)?;
    }
    std::fs::rename(data_dir, &discarded).map_err(failed)?;
    std::fs::remove_dir_all(&discarded).map_err(failed)
}
