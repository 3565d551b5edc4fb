//! The fields that a connector with columns takes out of a row, without parsing what it does not take.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The names of the fields to take, each with a place in the answer.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    slots: HashMap<String, usize>,
}

impl Fields {
    /// Takes these, in this order.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n String>) -> Self {
        Fields { slots: names.into_iter().enumerate().map(|(slot, name)| (name.clone(), slot)).collect() }
    }

    /// The JSON text of each field in order, exactly as it stands; `None` if absent. Of equal keys the last wins. An
    /// error for a row that is no JSON object.
    pub fn of<'a>(&self, row: &'a [u8]) -> Result<Vec<Option<&'a str>>, serde_json::Error> {
        let mut input = serde_json::Deserializer::from_slice(row);
        let values = Row(&self.slots).deserialize(&mut input)?;
        input.end()?;
        Ok(values)
    }
}

struct Row<'s>(&'s HashMap<String, usize>);

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = Vec<Option<&'de str>>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Vec<Option<&'de str>>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(slot) = map.next_key_seed(Key(self.0))? {
            let value: &'de RawValue = map.next_value()?;
            if let Some(place) = slot.and_then(|slot| values.get_mut(slot)) {
                *place = Some(value.get());
            }
        }
        Ok(values)
    }
}

/// Looks a key up without keeping it.
struct Key<'s>(&'s HashMap<String, usize>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }
    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.get(name).copied())
    }
}
