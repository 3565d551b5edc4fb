//! Which top-level fields a set of programs reads, and where one record has them.

/// Interns the top-level field names a set of programs reads; the index of a name is its slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FieldSet {
    names: Vec<String>,
}

impl FieldSet {
    /// No fields yet.
    pub fn new() -> Self {
        FieldSet::default()
    }
    /// The slot of a name, a new one if it was not known.
    pub fn intern(&mut self, name: &str) -> usize {
        match self.names.iter().position(|known| known == name) {
            Some(slot) => slot,
            None => {
                self.names.push(name.to_owned());
                self.names.len() - 1
            }
        }
    }
    /// The names, by slot.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }
    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// What stands in a slot's byte range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Absent,
    Null,
    True,
    False,
    /// JSON text between its quotes, without escapes.
    JsonString,
    /// JSON text between its quotes, with escapes.
    JsonEscaped,
    /// Something that begins like a number.
    JsonNumber,
    /// A balanced object or array.
    JsonNested,
    /// CSV text as it stands.
    CsvString,
    /// CSV text between its quotes, with doubled quotes in it.
    CsvDoubled,
    CsvInt,
    CsvDecimal,
    CsvBool,
    CsvTimestamp,
}

/// One field of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) kind: Kind,
}

impl Slot {
    pub(crate) const ABSENT: Slot = Slot { start: 0, end: 0, kind: Kind::Absent };

    #[inline(always)]
    pub(crate) fn bytes(self, record: &[u8]) -> &[u8] {
        record.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Where one record has the fields of a [`FieldSet`]; reused from record to record.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    pub(crate) slots: Vec<Slot>,
}

impl Slots {
    /// Slots for these fields, all absent.
    pub fn new(fields: &FieldSet) -> Self {
        Slots { slots: vec![Slot::ABSENT; fields.len()] }
    }

    pub(crate) fn reset(&mut self, len: usize) {
        self.slots.clear();
        self.slots.resize(len, Slot::ABSENT);
    }

    #[inline(always)]
    pub(crate) fn get(&self, slot: usize) -> Slot {
        self.slots.get(slot).copied().unwrap_or(Slot::ABSENT)
    }
}
