//! What fields the rows of a stream have, where the manifest defines them.

use std::collections::BTreeMap;

use onceward_connector::StreamShape;

use crate::model::{ComputationSpec, OperatorSpec, Pipeline, StepSpec};

/// First of the two columns that a window adds behind the group keys.
pub const WINDOW_START: &str = "window_start";
/// Second of the two columns that a window adds behind the group keys.
pub const WINDOW_END: &str = "window_end";

/// The shape of the union of some streams: known if all have the same columns in the same order.
pub fn stream_shape(pipeline: &Pipeline, streams: &[String]) -> StreamShape {
    let columns = columns(pipeline);
    let mut shapes = streams.iter().map(|stream| columns.get(stream.as_str()).cloned().flatten());
    let first = shapes.next().flatten();
    let same = shapes.all(|other| other == first);
    StreamShape { columns: first.filter(|_| same) }
}

/// The columns of every stream whose steps define them.
pub(crate) fn columns(pipeline: &Pipeline) -> BTreeMap<&str, Option<Vec<String>>> {
    let mut known: BTreeMap<&str, Option<Vec<String>>> =
        pipeline.sources.iter().map(|source| (source.name.as_str(), None)).collect();
    for computation in &pipeline.computations {
        let mut inputs = computation.inputs.iter().map(|name| known.get(name.as_str()).cloned().flatten());
        let first = inputs.next().flatten();
        let same = inputs.all(|other| other == first);
        let behind = behind_steps(computation, first.filter(|_| same));
        if let Some(late) = computation.late() {
            known.insert(late, behind.clone());
        }
        known.insert(&computation.name, output(computation, behind));
    }
    known
}

/// The columns behind the steps of a computation, given those before it.
fn behind_steps(computation: &ComputationSpec, mut columns: Option<Vec<String>>) -> Option<Vec<String>> {
    for step in &computation.steps {
        match step {
            StepSpec::Filter(_) => {}
            StepSpec::Map(fields) => columns = Some(fields.iter().map(|(name, _)| name.clone()).collect()),
            StepSpec::Function(_) => columns = None,
        }
    }
    columns
}

/// The columns after a computation, given those behind its steps.
fn output(computation: &ComputationSpec, columns: Option<Vec<String>>) -> Option<Vec<String>> {
    let Some(keyed) = &computation.keyed else { return columns };
    let OperatorSpec::Windows(windows) = &keyed.operator else { return None };
    let window = [WINDOW_START, WINDOW_END].map(str::to_owned);
    let computed = windows.compute.iter().map(|(name, _)| name.clone());
    Some(keyed.group_by.iter().cloned().chain(window).chain(computed).collect())
}

/// The fields that rows of a computation's inputs can have: known if those of every input are.
pub(crate) fn input_fields(
    inputs: &[String],
    columns: &BTreeMap<&str, Option<Vec<String>>>,
) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for name in inputs {
        for field in columns.get(name.as_str())?.as_ref()? {
            if !fields.contains(field) {
                fields.push(field.clone());
            }
        }
    }
    Some(fields)
}
