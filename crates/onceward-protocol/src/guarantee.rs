//! Guarantee derivation: a pure function from what is known of a path to the level that holds on it
//! and why (DESIGN section 8).

use std::fmt;

/// A delivery level, weakest first, so that the level of a path is the minimum over its elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// May lose, never repeats.
    AtMostOnce,
    /// May repeat, never loses.
    AtLeastOnce,
    /// May write again what is already there, with the same end result.
    EffectivelyOnce,
    /// Neither loses nor repeats.
    ExactlyOnce,
}

impl Level {
    /// The name used in manifests: `exactly_once`.
    pub fn name(self) -> &'static str {
        match self {
            Level::AtMostOnce => "at_most_once",
            Level::AtLeastOnce => "at_least_once",
            Level::EffectivelyOnce => "effectively_once",
            Level::ExactlyOnce => "exactly_once",
        }
    }
    /// The inverse of [`Level::name`].
    pub fn parse(name: &str) -> Option<Level> {
        [Level::AtMostOnce, Level::AtLeastOnce, Level::EffectivelyOnce, Level::ExactlyOnce]
            .into_iter()
            .find(|level| level.name() == name)
    }
    /// For people: `exactly-once`.
    pub fn label(self) -> &'static str {
        match self {
            Level::AtMostOnce => "at-most-once",
            Level::AtLeastOnce => "at-least-once",
            Level::EffectivelyOnce => "effectively-once",
            Level::ExactlyOnce => "exactly-once",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What an element of a path can promise, and on what conditions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// The best level that the element allows.
    pub level: Level,
    /// Why, in one clause: `files appear whole together with their progress`.
    pub reason: String,
    /// What must hold outside Onceward for it.
    pub conditions: Vec<String>,
}

/// One element of a path, by the name a user gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    /// `source flights`, `computation by_carrier`, `sink hourly`.
    pub name: String,
    /// What it can promise.
    pub promise: Promise,
}

/// The verdict on one path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathReport {
    /// The elements from source to sink.
    pub elements: Vec<Element>,
    /// The level that holds on the whole path.
    pub level: Level,
    /// Index into `elements` of the weakest; of equals the last, which is nearest to the data's reader.
    pub weakest: usize,
}

impl PathReport {
    /// Derives the verdict: a path is as strong as its weakest element. `None` for an empty path.
    pub fn derive(elements: Vec<Element>) -> Option<Self> {
        let level = elements.iter().map(|element| element.promise.level).min()?;
        let weakest = elements.iter().rposition(|element| element.promise.level == level)?;
        Some(PathReport { elements, level, weakest })
    }
    /// Everything the level rests on, in path order.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        self.elements.iter().flat_map(|element| element.promise.conditions.iter().map(String::as_str))
    }
}
