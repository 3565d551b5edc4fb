//! Why a pipeline cannot start or did not end well.

use onceward_connector::ConnectorError;
use onceward_engine::EngineError;
use onceward_engine::stored::LoadError;
use onceward_protocol::state::PipelineState;
use onceward_store::StoreError;

/// Why a pipeline cannot start or did not end well. Whatever was committed is safe in every case.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A manifest that may not run: every problem with its line.
    #[error("the manifest is refused:\n{0}")]
    Manifest(String),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A source could not be looked at.
    #[error("source {source_name}: {error}")]
    Source {
        /// The source.
        source_name: String,
        /// What it said.
        error: ConnectorError,
    },
    /// A sink could not be set up.
    #[error("sink {sink_name}: {error}")]
    Sink {
        /// The sink.
        sink_name: String,
        /// What it said.
        error: ConnectorError,
    },
    /// The store belongs to another pipeline.
    #[error(
        "OW-5501: the data directory holds pipeline {found}, the manifest is {wanted}; give this one a --data-dir of its own"
    )]
    OtherPipeline {
        /// In the store.
        found: String,
        /// In the manifest.
        wanted: String,
    },
    /// The manifest changed in a way that would reinterpret stored state.
    #[error("OW-5502: the manifest has changed since this pipeline first started, and what is stored was computed with the old one:\n  {}\nPut it back; or give the part another name, so that it starts anew beside what is stored; or drop its state on purpose with --reset NAME. To start all over, `onceward reset` the pipeline ({data_dir}) and remove what its sinks have written", changes.join("\n  "))]
    Changed {
        /// Where it is stored.
        data_dir: String,
        /// One line per change.
        changes: Vec<String>,
    },
    /// The pipeline has already delivered everything.
    #[error(
        "OW-5503: pipeline {pipeline} has already completed: all of its bounded input was delivered. To run it again from the start, type `onceward reset {pipeline}` (it removes {data_dir}) and remove what its sinks have written"
    )]
    Completed {
        /// The pipeline.
        pipeline: String,
        /// Where it is stored.
        data_dir: String,
    },
    /// The pipeline is not to run.
    #[error("OW-5512: pipeline {pipeline} does not run: {what}")]
    NotRunnable {
        /// The pipeline.
        pipeline: String,
        /// Why, and what to type.
        what: String,
    },
    /// A change that needs a stop with drain before it.
    #[error("OW-5516: the manifest has changed in a way that needs a stop with drain before it:\n  {}\nWith the manifest as it was, {reason}. Run that one, let `onceward stop` drain it, and run this one then", changes.join("\n  "))]
    UnderWay {
        /// One line per change.
        changes: Vec<String>,
        /// What is not finished.
        reason: String,
    },
    /// `--reset` of something that is not there.
    #[error(
        "OW-5517: --reset {name}: there is no source, computation or sink of that name; there are: {known}"
    )]
    NothingToReset {
        /// What was named.
        name: String,
        /// What there is.
        known: String,
    },
    /// Nothing there.
    #[error(
        "OW-5513: {0} holds no pipeline; name one that was run from here (`onceward list`), or give --data-dir"
    )]
    NoPipeline(String),
    /// Something that cannot be asked now.
    #[error("OW-5514: pipeline {pipeline} is {state}: {what}")]
    NotPossible {
        /// The pipeline.
        pipeline: String,
        /// Where it stands.
        state: PipelineState,
        /// Why, and what to type.
        what: String,
    },
    /// The store could not be removed.
    #[error(
        "OW-5515: the state in {data_dir} could not be removed: {reason}. Free the cause and reset again"
    )]
    Reset {
        /// Where it is.
        data_dir: String,
        /// What the system said.
        reason: String,
    },
    /// Two sinks that would write to one target.
    #[error(
        "OW-5511: sinks {first} and {second} write to the same target, {target}; give each a target of its own, or make one sink with both inputs"
    )]
    SameTarget {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// What they share.
        target: String,
    },
    /// A job was fenced by another owner.
    #[error(
        "OW-5504: {partition} was taken over: {reason}. Another run of this pipeline is active on the same target or store; nothing of this one was written after that"
    )]
    Fenced {
        /// Which partition.
        partition: String,
        /// What the store or target said.
        reason: String,
    },
    /// The outcome of a commit is unknown because the store failed.
    #[error(
        "OW-2005: the store stopped: {0}. What was reported committed is safe; free the cause and start again"
    )]
    StoreFailed(String),
    /// A second signal, or the time for a clean stop ran out.
    #[error(
        "OW-5505: stopped before everything in flight was confirmed; nothing is lost, the next run takes it up"
    )]
    StoppedEarly,
    /// A thread of ours ended unexpectedly.
    #[error("OW-5506: {0}. Please report this; what was committed is safe")]
    Thread(String),
    /// Randomness for nonces is not available.
    #[error("OW-5507: the system gives no random numbers: {0}")]
    Entropy(String),
}

impl From<LoadError> for RunError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => RunError::Store(error),
            LoadError::Engine(error) => RunError::Engine(error),
        }
    }
}
