//! Functions that a user writes in Rust and a manifest names: what the engine hands them and what they may do.
//!
//! A message function is pure and fused into its producer; a process function has state and timers per key,
//! and everything it does in an epoch commits together.

use std::sync::Arc;

use onceward_protocol::{MessageId, PartitionId, Position, Watermark};

/// Which of the two a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// Stateless and deterministic: from a message to any number of messages.
    Message,
    /// Keyed, with state and timers.
    Process,
}

/// What a function says when it cannot go on. The message stays unprocessed and the pipeline stops, naming it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct FunctionError(pub String);

impl FunctionError {
    /// An error with its reason.
    pub fn new(reason: impl std::fmt::Display) -> Self {
        FunctionError(reason.to_string())
    }
}

/// A message as a function sees it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The group key as a JSON object of its fields, in manifest order; `{}` in a message function.
    pub key: &'a [u8],
    /// The record, a JSON object.
    pub payload: &'a [u8],
    /// Microseconds since 1970, `None` where the source has no event time.
    pub event_time: Option<i64>,
    /// The root partition that fixed its position.
    pub root: &'a PartitionId,
    /// Its position there.
    pub position: Position,
    /// Which of the root message's outputs it is.
    pub child: u32,
}

impl Message<'_> {
    /// The globally unique, deterministic id: the same after every restart, good as an idempotency key for
    /// side effects (ID-UNIQUE).
    pub fn id(&self) -> MessageId {
        MessageId { root: self.root.clone(), position: self.position, children: vec![self.child] }
    }
}

/// Which clock a timer goes by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TimerKind {
    /// The watermark: fires once it has reached the time.
    Event,
    /// The commit clock: the time at which the epoch was begun, never going back over restarts.
    System,
    /// The wall clock.
    Real,
}

/// A timer that fired.
#[derive(Clone, Copy, Debug)]
pub struct Timer<'a> {
    /// The group key as a JSON object.
    pub key: &'a [u8],
    /// By which clock.
    pub kind: TimerKind,
    /// For when it was set, microseconds.
    pub at: i64,
    /// The name it was set under.
    pub name: &'a str,
}

/// Which messages an output comes from. Its event time is the smallest of theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parents<'a> {
    /// The message or timer being processed.
    Current,
    /// Messages of the current batch, by index.
    Messages(&'a [usize]),
}

/// What a process function may do. It acts on the state and timers of the current message's or timer's key.
pub trait Context {
    /// The effective watermark.
    fn watermark(&self) -> Watermark;
    /// The time of the epoch, microseconds: the same for everything in it, and it never goes back.
    fn system_time(&self) -> i64;
    /// The state under `name`, `None` if empty.
    fn state(&self, name: &str) -> Option<&[u8]>;
    /// Sets the state; an empty value deletes it.
    fn set_state(&mut self, name: &str, value: &[u8]);
    /// Sets a timer. One with the same key, kind, name and time is the same timer.
    fn set_timer(&mut self, kind: TimerKind, at: i64, name: &str);
    /// Removes a timer; removing an absent one is allowed.
    fn delete_timer(&mut self, kind: TimerKind, at: i64, name: &str);
    /// Puts out a JSON object; event time is the parents' smallest unless `event_time` says otherwise.
    fn emit_with(&mut self, payload: &[u8], parents: Parents<'_>, event_time: Option<i64>);
    /// Makes the `index`-th message of the batch the current one: state, timers and outputs are its key's.
    fn select(&mut self, index: usize);
    /// Puts out a JSON object that comes from the current message or timer.
    fn emit(&mut self, payload: &[u8]) {
        self.emit_with(payload, Parents::Current, None);
    }
}

/// A keyed function. One value serves one partition, single-threaded; everything that must survive goes into
/// the state.
pub trait ProcessFunction: Send {
    /// Takes one message.
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError>;
    /// Takes a batch of messages of any keys, in lane order. The default takes them one by one, so that every
    /// output has the one message as its parent.
    fn on_batch(&mut self, messages: &[Message<'_>], context: &mut dyn Context) -> Result<(), FunctionError> {
        for (index, message) in messages.iter().enumerate() {
            context.select(index);
            self.on_message(message, context)?;
        }
        Ok(())
    }
    /// Takes a timer that fired. It is deleted in the same epoch (TIMER-ONCE).
    fn on_timer(&mut self, _timer: &Timer<'_>, _context: &mut dyn Context) -> Result<(), FunctionError> {
        Ok(())
    }
}

/// A stateless, deterministic function: no clock, no randomness, no input but the message. A sample of messages
/// is computed twice and compared.
pub trait MessageFunction: Send + Sync {
    /// Takes one message; `emit` takes any number of JSON objects.
    fn on_message(&self, message: &Message<'_>, emit: &mut dyn FnMut(&[u8])) -> Result<(), FunctionError>;
}

/// The settings that a manifest gives a process function.
pub type FunctionConfig = [(String, String)];

/// Makes a process function for one partition.
pub type ProcessFactory =
    Arc<dyn Fn(&FunctionConfig) -> Result<Box<dyn ProcessFunction>, FunctionError> + Send + Sync>;

/// A registered function.
#[derive(Clone)]
pub enum Function {
    /// See [`MessageFunction`].
    Message(Arc<dyn MessageFunction>),
    /// See [`ProcessFunction`].
    Process(ProcessFactory),
}

impl Function {
    /// A message function.
    pub fn message(function: impl MessageFunction + 'static) -> Self {
        Function::Message(Arc::new(function))
    }
    /// A process function: `make` is called once for each partition, with the manifest's settings.
    pub fn process<P: ProcessFunction + 'static>(
        make: impl Fn(&FunctionConfig) -> Result<P, FunctionError> + Send + Sync + 'static,
    ) -> Self {
        Function::Process(Arc::new(move |config| {
            let function: Box<dyn ProcessFunction> = Box::new(make(config)?);
            Ok(function)
        }))
    }
    /// Which kind it is.
    pub fn kind(&self) -> FunctionKind {
        match self {
            Function::Message(_) => FunctionKind::Message,
            Function::Process(_) => FunctionKind::Process,
        }
    }
}
