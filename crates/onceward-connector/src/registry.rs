//! Which connector types this build has.

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_protocol::guarantee::Promise;

use crate::config::{Config, ConfigSchema};
use crate::error::ConnectorError;
use crate::function::{Function, FunctionKind};
use crate::sink::{Sink, StreamShape};
use crate::source::Source;

/// A type of source.
pub trait SourceConnector: Send + Sync {
    /// Its config.
    fn schema(&self) -> &'static ConfigSchema;
    /// What a source with this config promises; must not touch the outside world.
    fn promise(&self, config: &Config) -> Promise;
    /// Whether a range of positions never changes its content: the condition of an outbox by reference.
    fn immutable(&self, _config: &Config) -> bool {
        false
    }
    /// Checks what the schema cannot and builds the source; must not touch the outside world.
    fn build(&self, config: &Config) -> Result<Arc<dyn Source>, ConnectorError>;
}

/// A type of sink.
pub trait SinkConnector: Send + Sync {
    /// Its config.
    fn schema(&self) -> &'static ConfigSchema;
    /// What a sink with this config promises; must not touch the outside world.
    fn promise(&self, config: &Config) -> Promise;
    /// Checks what the schema cannot and builds the sink; must not touch the outside world.
    fn build(&self, config: &Config, input: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError>;
}

/// The connector types of this build, by manifest name, and the names of those it was built without.
#[derive(Default, Clone)]
pub struct Registry {
    sources: BTreeMap<&'static str, Arc<dyn SourceConnector>>,
    sinks: BTreeMap<&'static str, Arc<dyn SinkConnector>>,
    functions: BTreeMap<String, Function>,
}

impl Registry {
    /// Adds a type of source.
    pub fn add_source(&mut self, connector: Arc<dyn SourceConnector>) {
        self.sources.insert(connector.schema().connector, connector);
    }
    /// Adds a type of sink.
    pub fn add_sink(&mut self, connector: Arc<dyn SinkConnector>) {
        self.sinks.insert(connector.schema().connector, connector);
    }
    /// A type of source by name.
    pub fn source(&self, name: &str) -> Option<&Arc<dyn SourceConnector>> {
        self.sources.get(name)
    }
    /// A type of sink by name.
    pub fn sink(&self, name: &str) -> Option<&Arc<dyn SinkConnector>> {
        self.sinks.get(name)
    }
    /// Adds a function under the name that manifests use.
    pub fn add_function(&mut self, name: &str, function: Function) {
        self.functions.insert(name.to_owned(), function);
    }
    /// A function by name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }
    /// The names of all functions of one kind.
    pub fn function_names(&self, kind: FunctionKind) -> Vec<&str> {
        let of_kind = self.functions.iter().filter(|(_, function)| function.kind() == kind);
        of_kind.map(|(name, _)| name.as_str()).collect()
    }
    /// The names of all source types.
    pub fn source_names(&self) -> Vec<&'static str> {
        self.sources.keys().copied().collect()
    }
    /// The names of all sink types.
    pub fn sink_names(&self) -> Vec<&'static str> {
        self.sinks.keys().copied().collect()
    }
}
