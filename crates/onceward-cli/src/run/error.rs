//! The library's errors with the line of the manifest they are about.

use onceward::RunError;
use onceward_engine::EngineError;
use onceward_spec::Pipeline;
use onceward_spec::model::Place;

use crate::failure::Failure;
use crate::manifest::Manifest;

/// The failure that a command ends with.
pub fn failure(error: &RunError, manifest: &Manifest) -> Failure {
    let place = place(error, &manifest.pipeline).unwrap_or_default();
    let text = format!("{error}{}", manifest.place(place));
    match error {
        RunError::StoppedEarly => Failure::Interrupted(text),
        _ => Failure::Run(text),
    }
}

/// Where the part of the pipeline stands that an error is about.
fn place(error: &RunError, pipeline: &Pipeline) -> Option<Place> {
    match error {
        RunError::Source { source_name, .. } => source(pipeline, source_name),
        RunError::Sink { sink_name, .. } => sink(pipeline, sink_name),
        RunError::Engine(EngineError::Source { partition, .. }) => {
            // A source partition is called `<source>/<name>`.
            source(pipeline, partition.split_once('/').map_or(partition.as_str(), |(name, _)| name))
        }
        RunError::Engine(
            EngineError::Target { sink: name, .. }
            | EngineError::Marker { sink: name, .. }
            | EngineError::TargetUnreachable { sink: name, .. },
        ) => sink(pipeline, name),
        RunError::Engine(EngineError::Poison { stream, .. }) => {
            source(pipeline, stream).or_else(|| computation(pipeline, stream))
        }
        RunError::Engine(EngineError::Aggregate { computation: name, .. }) => computation(pipeline, name),
        _ => None,
    }
}

fn source(pipeline: &Pipeline, name: &str) -> Option<Place> {
    pipeline.sources.iter().find(|source| source.name == name).map(|source| source.place)
}

fn sink(pipeline: &Pipeline, name: &str) -> Option<Place> {
    pipeline.sinks.iter().find(|sink| sink.name == name).map(|sink| sink.place)
}

fn computation(pipeline: &Pipeline, name: &str) -> Option<Place> {
    pipeline
        .computations
        .iter()
        .find(|computation| computation.name == name)
        .map(|computation| computation.place)
}
