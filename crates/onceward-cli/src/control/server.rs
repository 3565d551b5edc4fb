//! The run's side of the socket: every client gets a thread of its own, a bounded number of them at a time, and each may
//! say one short line within a bounded time.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use onceward::Remote;

use super::socket::{Bound, SocketFile};
use super::wire::{Answer, MAX_REQUEST, Request};
use crate::figures::Report;

/// Clients that are served at a time.
const MAX_CLIENTS: usize = 64;
/// How long a client may take to say what it wants.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// How long a client may take to take what it asked for.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// How often new lines are looked for.
const FOLLOW_EVERY: Duration = Duration::from_millis(50);
/// How long a run that is over waits for clients to take their last lines.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Serves clients until it is dropped or ended.
pub struct Server {
    file: SocketFile,
    shared: Arc<Shared>,
}

struct Shared {
    pipeline: String,
    remote: Remote,
    clients: AtomicUsize,
    /// How the run ended.
    end: OnceLock<String>,
    /// Answers that are under way.
    answering: Mutex<usize>,
    answered: Condvar,
}

impl Server {
    /// Begins to serve.
    pub fn start(bound: Bound, pipeline: &str, remote: Remote) -> io::Result<Self> {
        let (listener, file) = bound.split();
        let shared = Arc::new(Shared {
            pipeline: pipeline.to_owned(),
            remote,
            clients: AtomicUsize::new(0),
            end: OnceLock::new(),
            answering: Mutex::new(0),
            answered: Condvar::new(),
        });
        let server = Server { file, shared: shared.clone() };
        thread::Builder::new().name("control".to_owned()).spawn(move || listen(&listener, &shared))?;
        Ok(server)
    }

    /// The run is over: who follows its lines hears how it ended. The socket is gone afterwards.
    pub fn end(self, how: &str) {
        let _ = self.shared.end.set(how.to_owned());
        // Wakes the thread that waits for clients; it then lets go of the socket.
        let _ = self.file.connect();
        drop(self.file);
        let answering = self.shared.answering.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.shared.answered.wait_timeout_while(answering, END_WITHIN, |answering| *answering > 0);
    }
}

fn listen(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.end.get().is_some() {
            return;
        }
        match stream {
            Ok(stream) => admit(stream, shared),
            // Out of file descriptors, most likely: they come back when a client goes.
            Err(_) => thread::sleep(FOLLOW_EVERY),
        }
    }
}

fn admit(stream: UnixStream, shared: &Arc<Shared>) {
    let client = Client { stream, shared: shared.clone() };
    // Counted here and given back when the client is dropped, wherever that is.
    let before = shared.clients.fetch_add(1, Ordering::SeqCst);
    if before >= MAX_CLIENTS {
        let text = format!("{MAX_CLIENTS} clients are connected already; try again in a moment");
        let _ = client.say(&Answer::Failed(text));
        return;
    }
    // If there is no thread, the client sees a connection that ends.
    let _ = thread::Builder::new().name("control-client".to_owned()).spawn(move || client.serve());
}

struct Client {
    stream: UnixStream,
    shared: Arc<Shared>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.clients.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts an answer that is under way.
struct Answering<'a>(&'a Shared);

impl<'a> Answering<'a> {
    fn begin(shared: &'a Shared) -> Self {
        *shared.answering.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Answering(shared)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        *self.0.answering.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.answered.notify_all();
    }
}

impl Client {
    /// A client that goes away, is silent or does not read is let go of: nothing else depends on it.
    fn serve(self) {
        let Ok(line) = self.read_line() else { return };
        if line.is_empty() {
            return;
        }
        let _answering = Answering::begin(&self.shared);
        let _ = match parse(&line) {
            Ok(Request::Logs { follow }) => self.send_lines(follow),
            Ok(request) => self.say(&self.answer(&request)),
            Err(text) => self.say(&Answer::Failed(text)),
        };
    }

    /// One line, or as much of it as fits into a request and one byte more. The time is for all of it, so that bytes
    /// that trickle in do not hold a place for ever.
    fn read_line(&self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + READ_WITHIN;
        let mut line = Vec::new();
        let mut buffer = [0u8; 1024];
        while line.len() <= MAX_REQUEST {
            let left = until.saturating_duration_since(Instant::now());
            // A limit of nothing would be none.
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let read = (&self.stream).read(&mut buffer)?;
            if let Some(end) = buffer[..read].iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&buffer[..end]);
                break;
            }
            line.extend_from_slice(&buffer[..read]);
            if read == 0 {
                break;
            }
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(line)
    }

    fn say(&self, answer: &Answer) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(WRITE_WITHIN))?;
        (&self.stream).write_all(&line)
    }

    fn answer(&self, request: &Request) -> Answer {
        let remote = &self.shared.remote;
        if let Request::Status { jobs } = request {
            return Answer::Status(Box::new(Report::running(&self.shared.pipeline, remote.status(), *jobs)));
        }
        match request.command().map(|command| remote.ask(command)) {
            Some(Ok(text)) => Answer::Done(text),
            Some(Err(text)) => Answer::Refused(text),
            None => Answer::Failed("this is not asked of a run".to_owned()),
        }
    }

    fn send_lines(&self, follow: bool) -> io::Result<()> {
        let mut after = 0;
        loop {
            // Asked before the lines are: what is sent then is all there is.
            let end = self.shared.end.get();
            for line in self.shared.remote.log_lines(after) {
                after = line.number;
                self.say(&Answer::Line { number: line.number, at: line.at, text: line.text })?;
            }
            match end {
                Some(end) => return self.say(&Answer::End(end.clone())),
                None if !follow => return self.say(&Answer::End(String::new())),
                None => self.rest()?,
            }
        }
    }

    /// Waits a moment, and notices a client that goes away: it has nothing more to say.
    fn rest(&self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(FOLLOW_EVERY))?;
        match (&self.stream).read(&mut [0u8; 1]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(ErrorKind::ConnectionAborted.into()),
        }
    }
}

fn parse(line: &[u8]) -> Result<Request, String> {
    if line.len() > MAX_REQUEST {
        return Err(format!("the request is longer than {MAX_REQUEST} bytes"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let version = env!("CARGO_PKG_VERSION");
        format!("the request is not one that onceward {version} knows: {error}")
    })
}
