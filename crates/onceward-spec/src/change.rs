//! What a manifest changes against the one that made the stored state, and what each change takes
//! (DESIGN 14): nothing (then it is not listed), a stop with drain, or a decision of the user's about
//! state that it would orphan or give another meaning.

use std::collections::BTreeMap;
use std::fmt;

use onceward_connector::{ConfigSchema, Registry};

use crate::canonical::{FORMAT, HEADER, canonical, parse};
use crate::graph::{COMPUTATIONS, SINKS, SOURCES};
use crate::model::Pipeline;

/// What a change takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeClass {
    /// A stop with drain before it (SPEC-CHANGE).
    NeedsDrain,
    /// It would orphan or reinterpret state: this. The ways out are another name for the part, or
    /// `--reset NAME`.
    Orphans(String),
}

/// One changed field, or a part that came or went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// `spec.computations.by_carrier.groupBy`; `spec.sinks.hourly` for a whole part.
    pub path: String,
    /// What it was, as JSON; `None` if it was not there. Of a whole part, what kind of part.
    pub before: Option<String>,
    /// What it is.
    pub after: Option<String>,
    /// What it takes.
    pub class: ChangeClass,
    /// The source, computation or sink.
    pub part: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "was {before}, is {after}"),
            (Some(before), None) => write!(f, "was {before}, is gone"),
            (None, after) => write!(f, "is new, {}", after.as_deref().unwrap_or_default()),
        }
    }
}

/// What a pipeline changes against the [`canonical`] text that is stored with the state; nothing if it
/// may simply go on. Texts of the last version are understood.
pub fn changes(old_canonical: &str, pipeline: &Pipeline, registry: &Registry) -> Vec<Change> {
    let new_text = canonical(pipeline, registry);
    let (mut old, new) = (parse(old_canonical), parse(&new_text));
    if old.is_empty() || old.contains_key(FORMAT) {
        return vec![unreadable(old_canonical)];
    }
    forget_live(&mut old, registry);
    let texts = Texts { old: &old, new: &new };
    let mut changes: BTreeMap<String, Change> = BTreeMap::new();
    for path in old.keys().chain(new.keys()) {
        if old.get(path) != new.get(path)
            && let Some(change) = texts.change(path)
        {
            changes.insert(change.path.clone(), change);
        }
    }
    changes.into_values().collect()
}

fn unreadable(old: &str) -> Change {
    Change {
        path: FORMAT.to_owned(),
        before: Some(old.lines().next().unwrap_or_default().to_owned()),
        after: Some(HEADER.to_owned()),
        class: ChangeClass::Orphans(
            "everything: the manifest that the state was made by is stored in a form that this build cannot read"
                .to_owned(),
        ),
        part: None,
    }
}

/// Takes out of a stored text what it holds because it was written when the field was not live yet.
fn forget_live(old: &mut BTreeMap<&str, &str>, registry: &Registry) {
    let live: Vec<&str> = old
        .keys()
        .copied()
        .filter(|path| match Field::of(path) {
            Some(Field { section: COMPUTATIONS, key: "partitions", .. }) => true,
            Some(field) => field.key.strip_prefix("config.").is_some_and(|key| {
                let name = old.get(format!("spec.{}.{}.type", field.section, field.part).as_str());
                let schema = name.and_then(|name| schema(registry, field.section, name));
                schema.is_some_and(|schema| schema.fields.iter().any(|field| field.name == key && field.live))
            }),
            None => false,
        })
        .collect();
    for path in live {
        old.remove(path);
    }
}

/// The config table of the type with this name, in JSON.
fn schema(registry: &Registry, section: &str, name: &str) -> Option<&'static ConfigSchema> {
    let name = name.trim_matches('"');
    match section {
        SOURCES => registry.source(name).map(|connector| connector.schema()),
        _ => registry.sink(name).map(|connector| connector.schema()),
    }
}

/// A path taken apart. Names have no dots.
#[derive(Clone, Copy)]
struct Field<'a> {
    section: &'a str,
    part: &'a str,
    key: &'a str,
}

impl<'a> Field<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let mut pieces = path.strip_prefix("spec.")?.splitn(3, '.');
        Some(Field { section: pieces.next()?, part: pieces.next()?, key: pieces.next()? })
    }
}

struct Texts<'a> {
    old: &'a BTreeMap<&'a str, &'a str>,
    new: &'a BTreeMap<&'a str, &'a str>,
}

impl Texts<'_> {
    /// The change at a path where the texts differ; `None` if another path tells it.
    fn change(&self, path: &str) -> Option<Change> {
        let value = |text: &BTreeMap<&str, &str>| text.get(path).map(|value| (*value).to_owned());
        let Some(field) = Field::of(path) else {
            let whole = "everything: state belongs to the pipeline's name".to_owned();
            return Some(Change {
                path: path.to_owned(),
                before: value(self.old),
                after: value(self.new),
                class: ChangeClass::Orphans(whole),
                part: None,
            });
        };
        let (was, is) = (kind(self.old, field), kind(self.new, field));
        let change = |path: String, before, after, class| {
            Some(Change { path, before, after, class, part: Some(field.part.to_owned()) })
        };
        if was.is_none() || is.is_none() {
            let class = match &was {
                Some(_) => self.removed(field),
                None => ChangeClass::NeedsDrain,
            };
            return change(format!("spec.{}.{}", field.section, field.part), was, is, class);
        }
        if field.section == COMPUTATIONS && self.regrouped(field) && is_of_grouping(field.key) {
            return None;
        }
        change(path.to_owned(), value(self.old), value(self.new), self.class(field))
    }

    /// Whether a computation began or ceased to group.
    fn regrouped(&self, field: Field<'_>) -> bool {
        grouping(self.old, field).is_some() != grouping(self.new, field).is_some()
    }

    fn removed(&self, field: Field<'_>) -> ChangeClass {
        let part = field.part;
        match field.section {
            SOURCES => ChangeClass::Orphans(format!("the places up to which `{part}` was read")),
            COMPUTATIONS if grouping(self.old, field).is_some() => ChangeClass::Orphans(state_of(part)),
            _ => ChangeClass::NeedsDrain,
        }
    }

    fn class(&self, field: Field<'_>) -> ChangeClass {
        let part = field.part;
        let path = format!("spec.{}.{part}.{}", field.section, field.key);
        let (before, after) = (self.old.get(path.as_str()), self.new.get(path.as_str()));
        let was = before.copied().unwrap_or_default();
        let orphaned = match (field.section, field.key) {
            (SOURCES, "eventTime.field") if before.is_none() => return ChangeClass::NeedsDrain,
            (SOURCES, "eventTime.field") => {
                format!("the watermarks, open windows and timers that were made by the times in {was}")
            }
            (SOURCES, "eventTime.outOfOrderness" | "eventTime.idleAfter") => return ChangeClass::NeedsDrain,
            (SOURCES, "materialise") => {
                format!(
                    "the places up to which the rows of `{part}` were taken, which are counted in another way"
                )
            }
            (SOURCES, _) => {
                format!(
                    "the places up to which `{part}` was read: with another `{}` they can mean other rows",
                    field.key
                )
            }
            (COMPUTATIONS, "groupBy") if before.is_none() => return ChangeClass::NeedsDrain,
            (COMPUTATIONS, "groupBy") if after.is_none() => state_of(part),
            (COMPUTATIONS, "groupBy") => format!("the state of `{part}`, which is kept by the keys {was}"),
            (COMPUTATIONS, "aggregate.window.tumbling") => {
                format!("the open windows of `{part}`, which have the size {was}")
            }
            (COMPUTATIONS, "aggregate.compute") => {
                format!("the open windows of `{part}`, which hold the aggregates {was}")
            }
            (COMPUTATIONS, "process.function") if before.is_none() => {
                format!("the open windows of `{part}`, which no function can read")
            }
            (COMPUTATIONS, "process.function") => {
                format!("the state and the timers of `{part}`, which {was} wrote in its own form")
            }
            (COMPUTATIONS, "dedupBy") if before.is_none() => return ChangeClass::NeedsDrain,
            (COMPUTATIONS, "dedupBy") => {
                format!("the ids that `{part}` has taken")
            }
            _ => return ChangeClass::NeedsDrain,
        };
        ChangeClass::Orphans(orphaned)
    }
}

fn state_of(computation: &str) -> String {
    format!("the state, open windows and timers of `{computation}`")
}

fn grouping<'a>(text: &BTreeMap<&str, &'a str>, field: Field<'_>) -> Option<&'a str> {
    text.get(format!("spec.{}.{}.groupBy", field.section, field.part).as_str()).copied()
}

/// What a part is, in words; `None` if the text does not have it.
fn kind(text: &BTreeMap<&str, &str>, field: Field<'_>) -> Option<String> {
    let get = |key: &str| text.get(format!("spec.{}.{}.{key}", field.section, field.part).as_str());
    match field.section {
        SOURCES | SINKS => get("type").map(|name| (*name).to_owned()),
        _ => match (get("inputs"), get("groupBy")) {
            (None, _) => None,
            (_, Some(keys)) => Some(format!("a grouping by {keys}")),
            (Some(inputs), None) => Some(format!("steps on {inputs}")),
        },
    }
}

/// Whether a key of a computation comes and goes with `groupBy`.
fn is_of_grouping(key: &str) -> bool {
    let first = key.split('.').next().unwrap_or_default();
    crate::grouping::GROUPED.contains(&first)
}
