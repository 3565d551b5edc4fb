//! Why a command did not succeed, and the exit code that says so.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::console;
use crate::control::ControlError;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A manifest was refused; what is wrong with it has been printed.
    #[error("the manifest was refused")]
    Refused,
    /// A manifest cannot be read.
    #[error("OW-6001: cannot read the manifest {}: {source}. Expected a YAML file in UTF-8", path.display())]
    Unreadable {
        /// The manifest.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// `init` found a file that it would have to overwrite.
    #[error("OW-6002: {} already exists, and nothing is overwritten. Nothing was written; give another folder, or remove it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Something cannot be written.
    #[error("OW-6003: cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The system does not let us handle SIGTERM and SIGINT.
    #[error(
        "OW-6004: cannot listen for SIGTERM and Ctrl-C: {0}. Without that no run could be stopped cleanly, so none was started"
    )]
    Signals(io::Error),
    /// A run failed. The text is the library's, with the manifest's line.
    #[error("{0}")]
    Run(String),
    /// A command to a pipeline did not succeed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A run was ended before its clean stop was done.
    #[error("{0}")]
    Interrupted(String),
}

impl Failure {
    /// 1 failed, 2 wrong usage or bad manifest, 130 ended before a clean stop was done.
    fn exit_code(&self) -> u8 {
        match self {
            Failure::Refused | Failure::Unreadable { .. } => 2,
            Failure::Exists { .. } | Failure::Write { .. } | Failure::Signals(_) | Failure::Run(_) => 1,
            Failure::Control(error) => error.exit_code(),
            Failure::Interrupted(_) => 130,
        }
    }

    /// Prints it, unless that has been done, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Failure::Refused) {
            let word = if console::coloured() { "\u{1b}[1;31merror\u{1b}[0m" } else { "error" };
            console::say(&format!("{word}: {}", console::printable(&self.to_string())));
        }
        ExitCode::from(self.exit_code())
    }
}
