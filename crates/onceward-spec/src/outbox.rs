//! How a sink's outbox keeps what is owed (DESIGN 6): the messages themselves, or the range of source
//! rows that they can be made of again.

use std::collections::BTreeMap;

use onceward_connector::{FunctionKind, Registry};

use crate::model::{ComputationSpec, Pipeline, SinkSpec, SourceSpec, StepSpec};

/// How a sink's outbox keeps what is owed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outbox {
    /// As ranges of source rows: nothing is written twice.
    ByReference,
    /// As the messages, for this reason: a clause that follows "because".
    ByValue(String),
}

/// How one sink's outbox keeps what is owed.
pub fn outbox(pipeline: &Pipeline, registry: &Registry, sink: &SinkSpec) -> Outbox {
    Fused::new(pipeline, registry).outbox(sink)
}

/// For every stream the one source that it can be made of again, or why there is none.
pub(crate) struct Fused<'a> {
    streams: BTreeMap<&'a str, Result<&'a str, String>>,
}

impl<'a> Fused<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, registry: &Registry) -> Self {
        let mut fused = Fused { streams: BTreeMap::new() };
        for source in &pipeline.sources {
            fused.streams.insert(&source.name, readable_again(source, registry));
        }
        for computation in &pipeline.computations {
            if let Some(late) = computation.late() {
                fused.streams.insert(late, Err(keyed(computation)));
            }
            let origin = fused.computation(computation, registry);
            fused.streams.insert(&computation.name, origin);
        }
        fused
    }

    pub(crate) fn outbox(&self, sink: &SinkSpec) -> Outbox {
        if sink.at_most_once.is_some() {
            let reason = "with `delivery: at_most_once` rows wait in memory and are never made again";
            return Outbox::ByValue(reason.to_owned());
        }
        let reason = sink.inputs.iter().find_map(|input| self.origin(input).err());
        reason.map_or(Outbox::ByReference, Outbox::ByValue)
    }

    fn origin(&self, stream: &str) -> Result<&'a str, String> {
        let unknown = || Err(format!("nothing is known of `{stream}`"));
        self.streams.get(stream).cloned().unwrap_or_else(unknown)
    }

    fn computation(&self, computation: &ComputationSpec, registry: &Registry) -> Result<&'a str, String> {
        let name = &computation.name;
        if computation.keyed.is_some() {
            return Err(keyed(computation));
        }
        let mut only = None;
        for input in &computation.inputs {
            let origin = self.origin(input)?;
            match only {
                Some(first) if first != origin => {
                    return Err(format!("`{name}` joins the rows of `{first}` and `{origin}`"));
                }
                _ => only = Some(origin),
            }
        }
        for step in &computation.steps {
            if let StepSpec::Function(function) = step
                && registry.function(&function.name).map(|found| found.kind()) != Some(FunctionKind::Message)
            {
                return Err(format!("nothing is known of the function `{}` in `{name}`", function.name));
            }
        }
        only.ok_or_else(|| format!("`{name}` has no input"))
    }
}

fn keyed(computation: &ComputationSpec) -> String {
    format!("what `{}` puts out depends on its state and not on rows of the source alone", computation.name)
}

fn readable_again<'a>(source: &'a SourceSpec, registry: &Registry) -> Result<&'a str, String> {
    let name = source.name.as_str();
    let Some(connector) = registry.source(&source.connector) else {
        return Err(format!("this build has no {}", source.connector));
    };
    if source.materialise {
        return Err(format!("`{name}` is materialised: its rows are stored when they are read"));
    }
    if !connector.immutable(&source.config) {
        return Err(format!(
            "a {} source such as `{name}` may give other rows when it is read again",
            source.connector
        ));
    }
    Ok(name)
}
