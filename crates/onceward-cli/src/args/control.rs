//! Arguments of the commands to a pipeline.

use std::path::PathBuf;

use clap::Args;

/// Which pipeline.
#[derive(Args, Debug)]
pub struct PipelineArgs {
    /// The pipeline: the name of one that was run from here, or its manifest [default: the only one that was run from here]
    #[arg(value_name = "PIPELINE")]
    pub pipeline: Option<String>,
    /// Where the pipeline's state is kept, if not in ./.onceward/NAME
    #[arg(long, value_name = "DIR", env = "ONCEWARD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

/// `status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Also every job, with its worker and its epoch
    #[arg(long)]
    pub jobs: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// `pause` and `resume`.
#[derive(Args, Debug)]
pub struct DemandArgs {
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Do not wait until the state is reached
    #[arg(long)]
    pub no_wait: bool,
}

/// `stop`.
#[derive(Args, Debug)]
pub struct StopArgs {
    #[command(flatten)]
    pub demand: DemandArgs,
    /// Do not finish what is under way: what was read and is not committed is read again by the next run
    #[arg(long)]
    pub no_drain: bool,
}

/// `list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// List the folder that this data directory is in, not ./.onceward
    #[arg(long, value_name = "DIR", env = "ONCEWARD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// `logs`.
#[derive(Args, Debug)]
pub struct LogsArgs {
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Go on with new lines until the run ends
    #[arg(long, short)]
    pub follow: bool,
}

/// `reset`.
#[derive(Args, Debug)]
pub struct ResetArgs {
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `rescale`.
#[derive(Args, Debug)]
pub struct RescaleArgs {
    /// The pipeline if there are several, the computation, and how many key ranges it is to have
    #[arg(value_name = "WORDS", num_args = 1..=3, required = true)]
    pub words: Vec<String>,
    /// Instead of N: between the manifest's minPartitions and maxPartitions, by load
    #[arg(long)]
    pub auto: bool,
    /// Where the pipeline's state is kept, if not in ./.onceward/NAME
    #[arg(long, value_name = "DIR", env = "ONCEWARD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}
