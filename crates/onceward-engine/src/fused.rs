//! Fused steps: everything between a root message and the next key exchange or sink, evaluated in one
//! pass. Nothing here is materialised, so everything here must be deterministic: expressions are pure,
//! and the order of evaluation is the order of the manifest.

use onceward_connector::Codec;
use onceward_expr::{EvalError, FieldSet, Program, Row, Scanner, Slots, Value};

/// One place of the tree.
pub enum Node {
    /// Goes on if the program is true.
    Filter {
        /// For messages.
        step: String,
        /// The condition.
        program: Program,
        /// What follows.
        then: Vec<Node>,
    },
    /// Builds a new record and goes on with it.
    Map {
        /// For messages.
        step: String,
        /// `"name":` as JSON, and the value.
        fields: Vec<(Vec<u8>, Program)>,
        /// The stage that reads the new record.
        stage: usize,
        /// What follows.
        then: Vec<Node>,
    },
    /// A key exchange: the message leaves for the computation's partitions.
    Keyed(KeyedTerminal),
    /// A sink takes the message.
    Sink {
        /// The sink's number in the plan.
        sink: u32,
    },
}

/// The end of a path at a keyed computation.
pub struct KeyedTerminal {
    /// For messages.
    pub step: String,
    /// Which group of lanes of the job: one per (stream, computation).
    pub group: usize,
    /// The slots of the key's fields.
    pub key: Vec<usize>,
    /// The aggregates' arguments, each with its place for messages; nothing for `count()`.
    pub args: Vec<(String, Program)>,
}

/// Reads one kind of record.
struct Stage {
    scanner: Scanner,
    fields: FieldSet,
    codec: Codec,
    /// Whether records are scanned at all.
    scans: bool,
}

/// A tree of fused steps over one root stream.
pub struct Tree {
    stages: Vec<Stage>,
    roots: Vec<Node>,
    event_time: Option<usize>,
    groups: usize,
}

/// Receives what the steps put out.
pub trait Emit {
    /// A message for a keyed computation: the `child`-th of this root message in this group.
    fn keyed(&mut self, group: usize, child: u32, key: &[u8], args: &[u8]);
    /// A JSON row for a sink.
    fn row(&mut self, sink: u32, json: &[u8]);
}

/// Why a message cannot be processed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepFailure {
    /// The step, as in the manifest.
    pub step: String,
    /// What it said.
    pub reason: String,
}

/// Buffers for evaluation, reused from message to message.
#[derive(Default)]
pub struct Scratch {
    slots: Vec<Slots>,
    records: Vec<Vec<u8>>,
    key: Vec<u8>,
    args: Vec<u8>,
    row: Vec<u8>,
    children: Vec<u32>,
}

/// Collects the fields of each stage while the tree is being built, since a stage's scanner needs all.
pub struct TreeBuilder {
    fields: Vec<(FieldSet, Codec, bool)>,
}

impl TreeBuilder {
    /// A tree over records of `codec`.
    pub fn new(codec: Codec) -> Self {
        TreeBuilder { fields: vec![(FieldSet::new(), codec, false)] }
    }
    /// The fields that stage reads so far.
    pub fn fields(&mut self, stage: usize) -> &mut FieldSet {
        &mut self.fields[stage].0
    }
    /// Records of this stage are scanned even if no field of them is read.
    pub fn scan(&mut self, stage: usize) {
        self.fields[stage].2 = true;
    }
    /// A stage behind a map.
    pub fn stage(&mut self) -> usize {
        self.fields.push((FieldSet::new(), Codec::Json, false));
        self.fields.len() - 1
    }
    /// Ends the building.
    pub fn finish(self, roots: Vec<Node>, event_time: Option<usize>, groups: usize) -> Tree {
        let stages = self
            .fields
            .into_iter()
            .map(|(fields, codec, scans)| Stage {
                scanner: Scanner::new(&codec, &fields),
                scans: scans || !fields.is_empty(),
                fields,
                codec,
            })
            .collect();
        Tree { stages, roots, event_time, groups }
    }
}

impl Tree {
    /// Buffers for this tree.
    pub fn scratch(&self) -> Scratch {
        Scratch {
            slots: self.stages.iter().map(|stage| Slots::new(&stage.fields)).collect(),
            records: self.stages.iter().map(|_| Vec::new()).collect(),
            children: vec![0; self.groups],
            ..Scratch::default()
        }
    }

    /// Whether nothing reads what this tree puts out.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Evaluates one root record. `begin` is told its event time before anything is put out; without an
    /// `eventTime` it is `i64::MIN`.
    #[inline]
    pub fn evaluate<E: Emit>(
        &self,
        record: &[u8],
        scratch: &mut Scratch,
        emit: &mut E,
        begin: impl FnOnce(&mut E, i64),
    ) -> Result<(), StepFailure> {
        let stage = &self.stages[0];
        let mut slots = std::mem::take(&mut scratch.slots[0]);
        let result = (|| {
            if stage.scans {
                stage.scanner.scan(record, &mut slots).map_err(|error| failure("reading", error))?;
            }
            let row = Row::new(record, &slots, &stage.scanner);
            let time = match self.event_time {
                None => i64::MIN,
                Some(slot) => event_time(&row, slot, &stage.fields.names()[slot])?,
            };
            begin(emit, time);
            if self.groups > 0 {
                scratch.children.fill(0);
            }
            self.walk(&self.roots, 0, &row, record, scratch, emit)
        })();
        scratch.slots[0] = slots;
        result
    }

    fn walk<E: Emit>(
        &self,
        nodes: &[Node],
        stage: usize,
        row: &Row<'_>,
        record: &[u8],
        scratch: &mut Scratch,
        emit: &mut E,
    ) -> Result<(), StepFailure> {
        for node in nodes {
            match node {
                Node::Filter { step, program, then } => match program.eval(row) {
                    Ok(Value::Bool(true)) => self.walk(then, stage, row, record, scratch, emit)?,
                    Ok(Value::Bool(false)) => {}
                    Ok(other) => {
                        let reason =
                            format!("a filter must be true or false, this one is {}", other.type_name());
                        return Err(StepFailure { step: step.clone(), reason });
                    }
                    Err(error) => return Err(failure(step, error)),
                },
                Node::Map { step, fields, stage: next, then } => {
                    self.map(step, fields, *next, then, row, scratch, emit)?;
                }
                Node::Keyed(terminal) => {
                    encode_keyed(terminal, row, &mut scratch.key, &mut scratch.args)?;
                    let child = &mut scratch.children[terminal.group];
                    emit.keyed(terminal.group, *child, &scratch.key, &scratch.args);
                    *child += 1;
                }
                Node::Sink { sink } => match &self.stages[stage].codec {
                    Codec::Json => emit.row(*sink, record),
                    codec => {
                        scratch.row.clear();
                        onceward_expr::record_to_json(codec, record, &mut scratch.row)
                            .map_err(|error| failure("writing as JSON", error))?;
                        emit.row(*sink, &scratch.row);
                    }
                },
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the recursion's state, spelled out")]
    fn map<E: Emit>(
        &self,
        step: &str,
        fields: &[(Vec<u8>, Program)],
        next: usize,
        then: &[Node],
        row: &Row<'_>,
        scratch: &mut Scratch,
        emit: &mut E,
    ) -> Result<(), StepFailure> {
        let mut record = std::mem::take(&mut scratch.records[next]);
        let mut slots = std::mem::take(&mut scratch.slots[next]);
        record.clear();
        let result = (|| {
            record.push(b'{');
            for (index, (name, program)) in fields.iter().enumerate() {
                if index > 0 {
                    record.push(b',');
                }
                record.extend_from_slice(name);
                program.write_json(row, &mut record).map_err(|error| failure(step, error))?;
            }
            record.push(b'}');
            let stage = &self.stages[next];
            if stage.scans {
                stage.scanner.scan(&record, &mut slots).map_err(|error| failure(step, error))?;
            }
            let row = Row::new(&record, &slots, &stage.scanner);
            self.walk(then, next, &row, &record, scratch, emit)
        })();
        scratch.records[next] = record;
        scratch.slots[next] = slots;
        result
    }
}

fn event_time(row: &Row<'_>, slot: usize, name: &str) -> Result<i64, StepFailure> {
    let step = || format!("eventTime.field {name}");
    match row.field(slot) {
        Ok(Some(value)) => value.to_event_time_us().ok_or_else(|| StepFailure {
            step: step(),
            reason: format!(
                "found {}, expected a timestamp: RFC 3339, `YYYY-MM-DD HH:MM:SS` or `YYYY-MM-DD`",
                value.type_name()
            ),
        }),
        Ok(None) => {
            let reason = "the field is absent; every row needs an event time".to_owned();
            Err(StepFailure { step: step(), reason })
        }
        Err(error) => Err(failure(&step(), error)),
    }
}

/// Encodes key and arguments of a message for a keyed computation. An absent key field is the key null;
/// an absent argument is not there for the aggregate.
#[inline]
fn encode_keyed(
    terminal: &KeyedTerminal,
    row: &Row<'_>,
    key: &mut Vec<u8>,
    args: &mut Vec<u8>,
) -> Result<(), StepFailure> {
    key.clear();
    args.clear();
    for slot in &terminal.key {
        let value = row.field(*slot).map_err(|error| failure(&terminal.step, error))?.unwrap_or(Value::Null);
        value.encode_key(key);
    }
    for (step, program) in &terminal.args {
        match program.eval(row) {
            Ok(value) => value.encode(args),
            Err(EvalError::Absent { .. }) => Value::Null.encode(args),
            Err(error) => return Err(failure(step, error)),
        }
    }
    Ok(())
}

#[cold]
fn failure(step: &str, error: impl std::fmt::Display) -> StepFailure {
    StepFailure { step: step.to_owned(), reason: error.to_string() }
}

/// `"name":` as it stands in a JSON object.
pub fn json_member(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 3);
    // Texts can always be written.
    let _ = Value::String(std::borrow::Cow::Borrowed(name)).write_json(&mut out);
    out.push(b':');
    out
}
