//! The error of a connector: a stable code and a sentence.

/// What went wrong in a connector, for a person: what was found, what was expected, what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ConnectorError {
    /// Stable: `OW-3` and three digits.
    pub code: &'static str,
    /// The sentence, with the name of the file, topic or table it is about.
    pub message: String,
    /// The config key it is about, if it is about one: the manifest's line is found by it.
    pub key: Option<&'static str>,
}

impl ConnectorError {
    /// An error about the world.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        ConnectorError { code, message: message.into(), key: None }
    }
    /// An error about one config key.
    pub fn config(code: &'static str, key: &'static str, message: impl Into<String>) -> Self {
        ConnectorError { code, message: message.into(), key: Some(key) }
    }
}
