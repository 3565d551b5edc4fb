//! What goes over the socket: one line of JSON each way, and several for [`Request::Logs`].

use onceward::{Command, Demand};
use serde::{Deserialize, Serialize};

use crate::figures::Report;

/// Bytes of a request, its end of line with it, at most.
pub const MAX_REQUEST: usize = 16 * 1024;
/// Bytes of an answer's line, at most: a pipeline has ten thousands of jobs at the very most.
pub const MAX_ANSWER: u64 = 64 * 1024 * 1024;

/// What a client wants of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// State and figures.
    Status {
        /// With every job.
        jobs: bool,
    },
    /// End where it is, keep everything.
    Pause,
    /// Go on after a pause.
    Resume,
    /// End the run.
    Stop {
        /// Whether what is under way is finished first.
        drain: bool,
    },
    /// Another number of key ranges.
    Rescale {
        /// The computation.
        computation: String,
        /// How many; `None` gives the number back to the manifest.
        ranges: Option<u32>,
    },
    /// The controller's lines.
    Logs {
        /// Whether to go on until the run ends.
        follow: bool,
    },
}

impl Request {
    /// As the run's controller takes it; `None` for what it is not asked.
    pub fn command(&self) -> Option<Command> {
        Some(match self {
            Request::Status { .. } | Request::Logs { .. } => return None,
            Request::Pause => Command::Demand(Demand::Pause),
            Request::Resume => Command::Demand(Demand::Resume),
            Request::Stop { drain } => Command::Demand(Demand::Stop { drain: *drain }),
            Request::Rescale { computation, ranges } => {
                Command::Rescale { computation: computation.clone(), ranges: *ranges }
            }
        })
    }
}

/// What a run answers.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Report>),
    /// What comes of it.
    Done(String),
    /// Why nothing comes of it.
    Refused(String),
    /// The request cannot be understood, or cannot be served.
    Failed(String),
    /// One line of many.
    Line {
        /// Grows by one per line.
        number: u64,
        /// Microseconds since 1970.
        at: i64,
        /// What.
        text: String,
    },
    /// There are no more lines: those that are kept were sent, or, with `follow`, the run ended like this.
    End(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_documented_and_nothing_else_is_understood() {
        let as_text = [
            (Request::Status { jobs: false }, r#"{"status":{"jobs":false}}"#),
            (Request::Pause, r#""pause""#),
            (Request::Resume, r#""resume""#),
            (Request::Stop { drain: true }, r#"{"stop":{"drain":true}}"#),
            (
                Request::Rescale { computation: "c".into(), ranges: Some(4) },
                r#"{"rescale":{"computation":"c","ranges":4}}"#,
            ),
            (
                Request::Rescale { computation: "c".into(), ranges: None },
                r#"{"rescale":{"computation":"c","ranges":null}}"#,
            ),
            (Request::Logs { follow: true }, r#"{"logs":{"follow":true}}"#),
        ];
        for (request, text) in as_text {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        // A stop that is meant with something that we do not know must not be taken for a stop without it.
        for text in [r#"{"stop":{"drain":true,"within":"10s"}}"#, r#""reset""#, "{}", "[]", "", "null"] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
    }
}
