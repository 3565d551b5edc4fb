//! The asking side: over the socket of the process that runs a pipeline, or in the store if none does.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use onceward::{RunError, offline};
use onceward_store::StoreError;

use super::error::ControlError;
use super::socket;
use super::target::Target;
use super::wire::{Answer, MAX_ANSWER, Request};
use crate::figures::Report;

/// How long a run may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a store may be in somebody's hands who does not answer: a run that starts or ends, or another command.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Who has answered.
pub enum Heard<T> {
    /// The process that runs the pipeline.
    Process(Answer),
    /// Nobody runs it; this is what the store says.
    Store(T),
}

/// A connection on which a request has been made.
pub struct Conversation(BufReader<io::Take<UnixStream>>);

impl Conversation {
    /// Connects and asks; `None` if no process is there.
    pub fn begin(data_dir: &Path, request: &Request) -> io::Result<Option<Self>> {
        let Some(mut stream) = socket::connect(data_dir)? else { return Ok(None) };
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        match stream.write_all(&line) {
            // It may have answered all the same, without having read.
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(Some(Conversation(BufReader::new(stream.take(MAX_ANSWER))))),
        }
    }

    /// The next line; `None` if the process has gone away.
    pub fn next(&mut self) -> io::Result<Option<Answer>> {
        let mut line = Vec::new();
        self.0.get_mut().set_limit(MAX_ANSWER);
        match self.0.read_until(b'\n', &mut line) {
            Err(error) if is_gone(&error) => return Ok(None),
            other => other?,
        };
        if !line.ends_with(b"\n") {
            return Ok(None);
        }
        let foreign = |error| {
            let text = format!(
                "its answer is not one that this version knows ({error}). Use the binary that runs it"
            );
            io::Error::new(ErrorKind::InvalidData, text)
        };
        serde_json::from_slice(&line).map(Some).map_err(foreign)
    }

    /// The next lines may take as long as they like.
    pub fn wait_for_ever(&self) -> io::Result<()> {
        self.0.get_ref().get_ref().set_read_timeout(None)
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

/// Asks the process; `None` if there is none, or none any more.
fn ask_process(data_dir: &Path, request: &Request) -> Result<Option<Answer>, ControlError> {
    let answer = Conversation::begin(data_dir, request)
        .and_then(|conversation| conversation.map_or(Ok(None), |mut conversation| conversation.next()));
    match answer {
        Ok(Some(Answer::Failed(reason))) => Err(ControlError::Talk { data_dir: data_dir.to_owned(), reason }),
        Ok(answer) => Ok(answer),
        Err(error) => Err(ControlError::talk(data_dir.to_owned(), &error)),
    }
}

/// Asks the process that runs a pipeline, or does it in the store if there is none. Between the two, a run may begin or
/// end: one of them is tried again until `patience` is over.
pub fn ask<T>(
    data_dir: &Path,
    request: &Request,
    patience: Duration,
    mut offline: impl FnMut() -> Result<T, RunError>,
) -> Result<Heard<T>, ControlError> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask_process(data_dir, request)? {
            return Ok(Heard::Process(answer));
        }
        match offline() {
            Ok(answer) => return Ok(Heard::Store(answer)),
            Err(RunError::Store(StoreError::Locked { holder, .. })) => {
                if began.elapsed() >= patience {
                    return Err(ControlError::Held { data_dir: data_dir.to_owned(), holder });
                }
                thread::sleep(LOOK_EVERY);
            }
            Err(error) => return Err(ControlError::Library(error)),
        }
    }
}

/// State and figures of whatever is in a data directory.
pub fn report(data_dir: &Path, jobs: bool, patience: Duration) -> Result<Report, ControlError> {
    match ask(data_dir, &Request::Status { jobs }, patience, || offline::overview(data_dir))? {
        Heard::Process(Answer::Status(report)) => Ok(*report),
        Heard::Process(_) => Err(unexpected(data_dir)),
        Heard::Store(overview) => Ok(Report::stored(overview)),
    }
}

/// State and figures of the pipeline that is meant.
pub fn look(target: &Target) -> Result<Report, ControlError> {
    let report = report(&target.data_dir, false, PATIENCE)?;
    target.check(&report.pipeline)?;
    Ok(report)
}

/// An answer to something else.
pub fn unexpected(data_dir: &Path) -> ControlError {
    let reason = "its answer is to another question. Use the binary that runs it".to_owned();
    ControlError::Talk { data_dir: data_dir.to_owned(), reason }
}
