//! Why a command to a pipeline did not succeed.

use std::io;
use std::path::PathBuf;

use onceward::RunError;

/// Why a command to a pipeline did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No pipeline has that name here.
    #[error(
        "OW-6005: found no pipeline {name} in {}. Expected the name of one that was run from here ({}), a manifest file, or --data-dir DIR",
        folder.display(), known_names(known)
    )]
    Unknown {
        /// What was typed.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
        /// What is there.
        known: Vec<String>,
    },
    /// None was named, and there is not exactly one.
    #[error(
        "OW-6006: no pipeline is named, and {} holds {}. Expected exactly one; name it, or give its manifest or --data-dir DIR",
        folder.display(), held(known)
    )]
    Unnamed {
        /// Where one was looked for.
        folder: PathBuf,
        /// What is there.
        known: Vec<String>,
    },
    /// The data directory is another pipeline's.
    #[error(
        "OW-6007: the data directory {} holds pipeline {found}, and {wanted} is named. Nothing was done; leave the name out, or give another --data-dir",
        data_dir.display()
    )]
    OtherPipeline {
        /// Where.
        data_dir: PathBuf,
        /// What is there.
        found: String,
        /// What was named.
        wanted: String,
    },
    /// Somebody has the store and does not answer.
    #[error(
        "OW-6008: the data directory {} is in use by process {holder}, and nobody answers at its control.sock. Expected a run that is at work; this one is starting, ending, or could not make its socket. Try again in a moment, or send SIGTERM to the process",
        data_dir.display()
    )]
    Held {
        /// Where.
        data_dir: PathBuf,
        /// The holder, as the store's lock says.
        holder: String,
    },
    /// The socket or what came over it.
    #[error("OW-6009: cannot talk to the process that runs {}: {reason}", data_dir.display())]
    Talk {
        /// Where.
        data_dir: PathBuf,
        /// What went wrong, and what to do.
        reason: String,
    },
    /// The run does not do it.
    #[error("OW-6010: pipeline {pipeline} was found {state}: {reason}")]
    Refused {
        /// The pipeline.
        pipeline: String,
        /// Its state.
        state: String,
        /// Why, and what to type.
        reason: String,
    },
    /// The state that was asked for was not reached.
    #[error("OW-6011: pipeline {pipeline} was to be {wanted} and is {found}: {why}")]
    NotReached {
        /// The pipeline.
        pipeline: String,
        /// What was asked for.
        wanted: &'static str,
        /// What came of it.
        found: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A reset that nobody has confirmed.
    #[error(
        "OW-6012: pipeline {0} was not reset: it was not confirmed. Expected `yes` at a terminal, or the option --yes"
    )]
    Unconfirmed(String),
    /// Something that only a process can do.
    #[error("OW-6013: no process runs pipeline {pipeline} ({state}), and {why}")]
    NoProcess {
        /// The pipeline.
        pipeline: String,
        /// Its state.
        state: String,
        /// Why one is needed, and what to do.
        why: &'static str,
    },
    /// Words that do not fit.
    #[error("OW-6014: {0}")]
    Usage(String),
    /// The library's own.
    #[error(transparent)]
    Library(RunError),
}

impl ControlError {
    /// An error of the socket.
    pub fn talk(data_dir: PathBuf, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "its control.sock is another user's. Use the user that started the run".to_owned()
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                "it does not answer in time. It may be stopped (SIGSTOP) or overloaded; try again".to_owned()
            }
            _ => error.to_string(),
        };
        ControlError::Talk { data_dir, reason }
    }

    /// 1 failed, 2 wrong usage.
    pub fn exit_code(&self) -> u8 {
        match self {
            ControlError::Unknown { .. }
            | ControlError::Unnamed { .. }
            | ControlError::OtherPipeline { .. }
            | ControlError::Unconfirmed(_)
            | ControlError::Usage(_) => 2,
            _ => 1,
        }
    }
}

fn known_names(known: &[String]) -> String {
    if known.is_empty() { "there is none".to_owned() } else { known.join(", ") }
}

fn held(known: &[String]) -> String {
    match known.len() {
        0 => "none".to_owned(),
        count => format!("{count} ({})", known.join(", ")),
    }
}
