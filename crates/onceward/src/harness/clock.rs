//! Clocks that a function sees in whole milliseconds.
//!
//! Epochs take microseconds of the harness's clock, and a restart takes some more. A function that puts out the
//! time would then differ between a run with a kill and one without, although nothing was lost or repeated.

use std::sync::Arc;

use onceward_connector::{
    Context, Function, FunctionError, Message, Parents, ProcessFunction, Registry, Timer, TimerKind,
};
use onceward_protocol::Watermark;
use onceward_spec::{OperatorSpec, Pipeline};

/// What every call of the harness takes at least, and what clocks are cut to, in microseconds.
pub(super) const TICK_US: i64 = 1000;

/// How many timers may set timers that are due at once within one tick.
const MAX_RESTLESS: u32 = 10_000;

/// The registry with the pipeline's process functions on such clocks.
pub(super) fn on_whole_ticks(pipeline: &Pipeline, registry: &Registry) -> Registry {
    let mut wrapped = registry.clone();
    for keyed in pipeline.computations.iter().filter_map(|computation| computation.keyed.as_ref()) {
        let OperatorSpec::Process(process) = &keyed.operator else { continue };
        let Some(Function::Process(factory)) = registry.function(&process.function.name) else { continue };
        let factory = factory.clone();
        let function = Function::Process(Arc::new(move |config| {
            let inner = factory(config)?;
            let function: Box<dyn ProcessFunction> = Box::new(OnTicks { inner, tick: i64::MIN, restless: 0 });
            Ok(function)
        }));
        wrapped.add_function(&process.function.name, function);
    }
    wrapped
}

struct OnTicks {
    inner: Box<dyn ProcessFunction>,
    tick: i64,
    /// How many timers set timers that are due at once, in this tick.
    restless: u32,
}

impl ProcessFunction for OnTicks {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        self.inner.on_message(message, &mut Ticking::new(context))
    }
    fn on_batch(&mut self, messages: &[Message<'_>], context: &mut dyn Context) -> Result<(), FunctionError> {
        self.inner.on_batch(messages, &mut Ticking::new(context))
    }
    fn on_timer(&mut self, timer: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let mut ticking = Ticking::new(context);
        self.inner.on_timer(timer, &mut ticking)?;
        let (now, again) = (ticking.system_time(), ticking.set_what_is_due);
        if self.tick != now {
            (self.tick, self.restless) = (now, 0);
        }
        self.restless += u32::from(again);
        if self.restless <= MAX_RESTLESS {
            return Ok(());
        }
        Err(FunctionError::new(format!(
            "OW-5569: found {MAX_RESTLESS} timers that set a timer for a time already reached, the last under the name \
             {}, expected a later time: the function would never come to rest",
            timer.name
        )))
    }
}

struct Ticking<'a> {
    context: &'a mut dyn Context,
    set_what_is_due: bool,
}

impl<'a> Ticking<'a> {
    fn new(context: &'a mut dyn Context) -> Self {
        Ticking { context, set_what_is_due: false }
    }
}

impl Context for Ticking<'_> {
    fn watermark(&self) -> Watermark {
        self.context.watermark()
    }
    fn system_time(&self) -> i64 {
        self.context.system_time().div_euclid(TICK_US) * TICK_US
    }
    fn state(&self, name: &str) -> Option<&[u8]> {
        self.context.state(name)
    }
    fn set_state(&mut self, name: &str, value: &[u8]) {
        self.context.set_state(name, value);
    }
    fn set_timer(&mut self, kind: TimerKind, at: i64, name: &str) {
        let now = match kind {
            TimerKind::Event => self.watermark().0,
            TimerKind::System | TimerKind::Real => self.system_time(),
        };
        self.set_what_is_due |= at <= now;
        self.context.set_timer(kind, at, name);
    }
    fn delete_timer(&mut self, kind: TimerKind, at: i64, name: &str) {
        self.context.delete_timer(kind, at, name);
    }
    fn emit_with(&mut self, payload: &[u8], parents: Parents<'_>, event_time: Option<i64>) {
        self.context.emit_with(payload, parents, event_time);
    }
    fn select(&mut self, index: usize) {
        self.context.select(index);
    }
}
