//! The binary `onceward`: what a user types and what a user reads.
//!
//! *Architecture invariant:* nothing is decided here about epochs, delivery or data; a command turns its
//! arguments into calls of the library and what the library says into text and an exit code.

mod args;
mod check;
mod console;
mod control;
mod explain;
mod failure;
mod figures;
mod init;
mod manifest;
mod run;
mod schema;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Status(args) => control::status(&args),
        Command::Pause(args) => control::pause(&args),
        Command::Resume(args) => control::resume(&args),
        Command::Stop(args) => control::stop(&args),
        Command::List(args) => control::list(&args),
        Command::Logs(args) => control::logs(&args),
        Command::Rescale(args) => control::rescale(&args),
        Command::Reset(args) => control::reset(&args),
        Command::Validate(args) => check::validate(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Schema => schema::schema(),
        Command::Init(args) => init::init(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
