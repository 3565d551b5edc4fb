//! What each element of a path promises, why and on what conditions.

use onceward_connector::Registry;
use onceward_protocol::guarantee::{Level, Promise};

use crate::model::{
    ComputationSpec, KeyedSpec, OperatorSpec, ProcessingMode, SinkSpec, SourceSpec, StepSpec,
};
use crate::nearest::one_of;
use crate::units::format_duration;

fn absent(connector: &str) -> Promise {
    Promise {
        level: Level::AtMostOnce,
        reason: format!("this build has no {connector}, so nothing is known of it"),
        conditions: Vec::new(),
    }
}

/// A source's; `grouped` says whether something behind it on the path groups.
pub(crate) fn source(source: &SourceSpec, registry: &Registry, grouped: bool) -> Promise {
    let mut promise = registry
        .source(&source.connector)
        .map_or_else(|| absent(&source.connector), |connector| connector.promise(&source.config));
    if source.materialise {
        promise.reason.push_str("; rows are stored as they were read before anything else sees them");
    }
    let idle = source.event_time.as_ref().and_then(|time| time.idle_after_us).filter(|_| grouped);
    if let Some(us) = idle {
        promise.conditions.push(format!(
            "no partition of `{}` is silent for {} (`idleAfter`) and then brings rows again: those may be late, so that \
             results depend on timing",
            source.name,
            format_duration(us)
        ));
    }
    promise
}

/// What the target can hold, whatever the manifest asks for.
pub(crate) fn target(sink: &SinkSpec, registry: &Registry) -> Promise {
    registry
        .sink(&sink.connector)
        .map_or_else(|| absent(&sink.connector), |connector| connector.promise(&sink.config))
}

/// A sink's.
pub(crate) fn sink(sink: &SinkSpec, registry: &Registry) -> Promise {
    let promise = target(sink, registry);
    match sink.delivery {
        Some(Level::AtMostOnce) => Promise {
            level: Level::AtMostOnce,
            reason: "the manifest asks for it (`delivery: at_most_once`): an attempt that has started is never repeated, and \
                     rows that are lost or do not fit into the queue are counted"
                .to_owned(),
            conditions: Vec::new(),
        },
        Some(chosen) if chosen < promise.level => Promise {
            level: chosen,
            reason: format!(
                "the manifest asks for no more (`delivery: {}`); it is written as if for {}",
                chosen.name(),
                promise.level
            ),
            conditions: promise.conditions,
        },
        _ => promise,
    }
}

/// A computation's.
pub(crate) fn computation(computation: &ComputationSpec, replay_check: u64) -> Promise {
    let mut conditions = Vec::new();
    let functions = step_functions(computation);
    for function in &functions {
        let checked = match replay_check {
            0 => "nothing checks it (`replayCheck: 0`)".to_owned(),
            1 => "every message is computed twice and compared".to_owned(),
            every => format!("one of {every} messages is computed twice and compared"),
        };
        conditions.push(format!("the message function `{function}` is deterministic; {checked}"));
    }
    if let Some(keyed) = &computation.keyed {
        return grouping(&computation.name, keyed, conditions);
    }
    let reason = match functions[..] {
        [] => {
            "its steps have no clock, no randomness and no input but the message, so a repeat gives the same"
                .to_owned()
        }
        _ => format!(
            "its expressions see nothing but the message, and the message function {} is checked by replay, so a repeat gives the same",
            one_of(functions.iter().copied())
        ),
    };
    Promise { level: Level::ExactlyOnce, reason, conditions }
}

fn step_functions(computation: &ComputationSpec) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for step in &computation.steps {
        if let StepSpec::Function(function) = step
            && !names.contains(&function.name.as_str())
        {
            names.push(&function.name);
        }
    }
    names
}

fn grouping(name: &str, keyed: &KeyedSpec, mut conditions: Vec<String>) -> Promise {
    let dedup = &keyed.dedup;
    let forgets = keyed.processing_mode == ProcessingMode::AtLeastOnceConsistent;
    if !dedup.by.is_empty() && forgets {
        return Promise {
            level: Level::AtLeastOnce,
            reason: "the manifest asks for no more (`processingMode: at_least_once_consistent`): no ids are kept, so a \
                     client's repeat counts again"
                .to_owned(),
            conditions,
        };
    }
    if !dedup.by.is_empty() {
        let (fields, time) = (dedup.by.join(", "), format_duration(dedup.keep_us));
        conditions.push(format!(
            "no message for `{name}` comes more than {time} (`dedupFor`) behind the watermark: whether its id \
             ({fields}) was seen is then not known, and it is not taken but counted as expired"
        ));
    }
    let mut reason = "state, timers, input frontiers and output of an epoch commit together".to_owned();
    if let OperatorSpec::Process(process) = &keyed.operator {
        reason = format!(
            "{reason}; the process function `{}` may be deterministic or not, its outputs are stored before they leave",
            process.function.name
        );
    }
    Promise { level: Level::ExactlyOnce, reason, conditions }
}

/// That of a stream of late rows.
pub(crate) fn late(computation: &ComputationSpec) -> Promise {
    Promise {
        level: Level::ExactlyOnce,
        reason: format!(
            "a row that is too late for `{}` is stored with the epoch that took it",
            computation.name
        ),
        conditions: Vec::new(),
    }
}
