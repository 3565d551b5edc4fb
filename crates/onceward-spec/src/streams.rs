//! The streams of a pipeline: who makes the rows that go by a name.

use std::collections::BTreeMap;

use crate::model::{ComputationSpec, OperatorSpec, Pipeline, SourceSpec};

/// What makes a stream.
#[derive(Clone, Copy, Debug)]
pub enum Producer<'a> {
    /// A source.
    Source(&'a SourceSpec),
    /// A computation: its results.
    Computation(&'a ComputationSpec),
    /// A computation with windows: the rows that came too late for them (`aggregate.late`).
    Late(&'a ComputationSpec),
}

/// Every stream by its name.
pub fn streams(pipeline: &Pipeline) -> BTreeMap<&str, Producer<'_>> {
    let sources = pipeline.sources.iter().map(|source| (source.name.as_str(), Producer::Source(source)));
    let late = pipeline
        .computations
        .iter()
        .filter_map(|computation| Some((computation.late()?, Producer::Late(computation))));
    let results = pipeline
        .computations
        .iter()
        .map(|computation| (computation.name.as_str(), Producer::Computation(computation)));
    late.chain(sources).chain(results).collect()
}

impl ComputationSpec {
    /// The name of the stream of its late rows, if it has one.
    pub fn late(&self) -> Option<&str> {
        match &self.keyed.as_ref()?.operator {
            OperatorSpec::Windows(windows) => windows.late.as_deref(),
            OperatorSpec::Process(_) => None,
        }
    }
}
