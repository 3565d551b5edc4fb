//! The command line.

pub mod control;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use control::{DemandArgs, ListArgs, LogsArgs, RescaleArgs, ResetArgs, StatusArgs, StopArgs};

/// Moves and computes data from sources to sinks, exactly once unless you choose less.
#[derive(Parser, Debug)]
#[command(
    name = "onceward",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  onceward init demo                  a first pipeline, ready to run
  onceward run demo/pipeline.yaml     run it
  onceward explain demo/pipeline.yaml what it guarantees, and why
  onceward list                       what was run from here, and where it stands
  onceward pause orders               let a running one rest, and later `onceward resume orders`

Exit codes: 0 done, 1 failed, 2 wrong usage or a bad manifest, 130 ended before a clean stop was done."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a pipeline until its bounded sources are done or it is stopped
    #[command(after_help = "Examples:
  onceward run pipeline.yaml
  onceward run pipeline.yaml --set spec.sources.orders.config.path=orders.jsonl
  onceward run pipeline.yaml --data-dir /var/lib/onceward/orders --plain
  onceward run pipeline.yaml --reset by_user    its windows have changed: forget the old ones

A run that was stopped or killed is continued by the same command: the output is as if nothing had
happened. Ctrl-C or SIGTERM stops cleanly: reading ends, the open epoch is finished, the sinks confirm, all
is committed, exit code 0. A second one ends the process at once; that is safe too, with exit code 130.
It is also 130 if the clean stop takes longer than the manifest's shutdownTimeout.")]
    Run(RunArgs),
    /// Show where a pipeline stands, with its figures while it runs
    #[command(after_help = "Examples:
  onceward status orders
  onceward status pipelines/orders.yaml --jobs
  onceward status --data-dir /var/lib/onceward/orders --json

Figures are those of the running process. Without one, the state is read from the data directory.")]
    Status(StatusArgs),
    /// Let a pipeline rest: nothing is read, nothing is written, everything is kept
    #[command(after_help = "Examples:
  onceward pause orders
  onceward pause orders --no-wait

`onceward run` stays there and waits for `onceward resume`. A pause outlives its process: the next run is
refused until somebody resumes it.")]
    Pause(DemandArgs),
    /// Let a paused pipeline go on
    #[command(after_help = "Example:
  onceward resume orders

If no process runs it, `onceward run` may start it again afterwards.")]
    Resume(DemandArgs),
    /// Stop a pipeline: finish what is under way, then end its run
    #[command(after_help = "Examples:
  onceward stop orders                reading ends, what was read goes through, sinks confirm
  onceward stop orders --no-drain     open epochs are finished, the rest waits for the next run

Both lose and repeat nothing. `onceward run` ends with exit code 0; typed again, it goes on.")]
    Stop(StopArgs),
    /// List the pipelines that were run from here, and where they stand
    #[command(after_help = "Examples:
  onceward list
  onceward list --data-dir /var/lib/onceward/orders   those in /var/lib/onceward")]
    List(ListArgs),
    /// Print what the running process did: states, leases, key ranges
    #[command(after_help = "Examples:
  onceward logs orders
  onceward logs orders --follow

Times are UTC. The newest lines are kept, in the running process only.")]
    Logs(LogsArgs),
    /// Change the number of key ranges of a computation while it runs
    #[command(
        override_usage = "onceward rescale [PIPELINE] COMPUTATION N\n       onceward rescale [PIPELINE] COMPUTATION --auto",
        after_help = "Examples:
  onceward rescale by_user 8          of the only pipeline that was run from here
  onceward rescale orders by_user 2
  onceward rescale orders by_user --auto

Ranges are cut or joined one step at a time; results are the same with any number of them. N holds until
it is changed again, also over restarts; --auto gives the number back to the manifest."
    )]
    Rescale(RescaleArgs),
    /// Forget everything that a pipeline has done; the next run starts new
    #[command(
        mut_arg("pipeline", |arg| arg.help("The pipeline: the name of one that was run from here, or its manifest")),
        after_help = "Examples:
  onceward reset orders
  onceward reset orders --yes         for scripts: nothing is asked

Removes the data directory. What the sinks have written is not removed: remove it before the next run, or
move it away. Refused while a process runs the pipeline."
    )]
    Reset(ResetArgs),
    /// Check manifests without running them
    #[command(after_help = "Examples:
  onceward validate pipeline.yaml
  onceward validate pipelines/*.yaml

Every problem is shown with its line. No data is read. Exit code 2 if a manifest is refused.")]
    Validate(ValidateArgs),
    /// Print what a pipeline guarantees on every path, and why
    #[command(after_help = "Examples:
  onceward explain pipeline.yaml
  onceward explain pipeline.yaml --json

No data is read: the files do not need to be there.")]
    Explain(ExplainArgs),
    /// Print the JSON Schema of manifests, for editors
    #[command(after_help = "Example:
  onceward schema > onceward.schema.json

The first line of a manifest tells editors where it is:
  # yaml-language-server: $schema=./onceward.schema.json")]
    Schema,
    /// Write a small pipeline with sample data, ready to run
    #[command(after_help = "Example:
  onceward init demo && onceward run demo/pipeline.yaml

Nothing is overwritten: if one of the files exists, nothing is written.")]
    Init(InitArgs),
}

/// A manifest and changes to it.
#[derive(Args, Debug)]
pub struct ManifestArgs {
    /// The pipeline's manifest, a YAML file
    #[arg(value_name = "MANIFEST")]
    pub path: PathBuf,
    #[command(flatten)]
    pub sets: Sets,
}

/// Changes to a manifest.
#[derive(Args, Debug)]
pub struct Sets {
    /// Replace or add a value of the manifest, for example spec.epoch.interval=1s; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub values: Vec<String>,
}

/// `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub manifest: ManifestArgs,
    /// Where the pipeline's state is kept [default: ./.onceward/NAME]
    #[arg(long, value_name = "DIR", env = "ONCEWARD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Read at most this many rows a second, over all sources
    #[arg(long, value_name = "ROWS_PER_S", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Threads that compute [default: `spec.replicas` of the manifest, or one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Drop the state of a source, computation or sink before the run, so that it begins anew; may be repeated
    #[arg(long, value_name = "NAME")]
    pub reset: Vec<String>,
    /// Print progress as plain lines even on a terminal
    #[arg(long)]
    pub plain: bool,
}

/// `validate`.
#[derive(Args, Debug)]
pub struct ValidateArgs {
    /// Manifests
    #[arg(value_name = "MANIFEST", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub sets: Sets,
}

/// `explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub manifest: ManifestArgs,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// `init`.
#[derive(Args, Debug)]
pub struct InitArgs {
    /// The folder to write to; it is made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}
