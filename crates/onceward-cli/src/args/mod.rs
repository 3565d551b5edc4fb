//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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

A run that was stopped or killed is continued by the same command: the output is as if nothing had
happened. Ctrl-C or SIGTERM stops cleanly: reading ends, the open epoch is finished, the sinks confirm, all
is committed, exit code 0. A second one ends the process at once; that is safe too, with exit code 130.
It is also 130 if the clean stop takes longer than the manifest's shutdownTimeout.")]
    Run(RunArgs),
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
