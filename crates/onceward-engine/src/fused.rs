//! Fused steps: everything between a root message and the next key exchange or sink, evaluated in one
//! pass. Nothing here is materialised, so everything here must be deterministic: expressions are pure,
//! and the order of evaluation is the order of the manifest.

use std::sync::Arc;

use onceward_connector::{Codec, Message, MessageFunction};
use onceward_expr::{EvalError, FieldSet, Program, Row, Scanner, Slots, Value};
use onceward_protocol::codec::put_bytes;
use onceward_protocol::{PartitionId, Position};

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
    /// A registered message function: any number of new records.
    Function {
        /// For messages.
        step: String,
        /// The function.
        function: Arc<dyn MessageFunction>,
        /// The stage that reads the new records.
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
    /// The slots of a client-chosen id's fields; it goes in front of the arguments.
    pub id: Vec<usize>,
    /// Whether the record itself follows the arguments.
    pub record: bool,
}

/// Where a root record comes from: what makes the ids of messages.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The partition.
    pub root: &'a PartitionId,
    /// The record's place in it.
    pub position: Position,
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
    /// How many outputs of a function there were: a message function's own child index.
    functions: u32,
    /// Compute this message twice and compare.
    check: bool,
    id: Vec<u8>,
}

impl Scratch {
    /// Whether the next messages are computed twice and compared, to find steps that are not deterministic.
    pub fn set_check(&mut self, check: bool) {
        self.check = check;
    }
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

    /// Groups of lanes that it feeds.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Evaluates one root record. `begin` is told its event time before anything is put out; without an
    /// `eventTime` it is `i64::MIN`.
    #[inline]
    pub fn evaluate<E: Emit>(
        &self,
        record: &[u8],
        origin: Origin<'_>,
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
            scratch.functions = 0;
            self.walk(&self.roots, 0, origin, &row, record, scratch, emit)
        })();
        scratch.slots[0] = slots;
        result
    }

    #[expect(clippy::too_many_arguments, reason = "the recursion's state, spelled out")]
    fn walk<E: Emit>(
        &self,
        nodes: &[Node],
        stage: usize,
        origin: Origin<'_>,
        row: &Row<'_>,
        record: &[u8],
        scratch: &mut Scratch,
        emit: &mut E,
    ) -> Result<(), StepFailure> {
        for node in nodes {
            match node {
                Node::Filter { step, program, then } => match program.eval(row) {
                    Ok(first) if scratch.check && program.eval(row).ok().as_ref() != Some(&first) => {
                        return Err(not_deterministic(step));
                    }
                    Ok(Value::Bool(true)) => self.walk(then, stage, origin, row, record, scratch, emit)?,
                    Ok(Value::Bool(false)) => {}
                    Ok(other) => {
                        let reason =
                            format!("a filter must be true or false, this one is {}", other.type_name());
                        return Err(StepFailure { step: step.clone(), reason });
                    }
                    Err(error) => return Err(failure(step, error)),
                },
                Node::Map { step, fields, stage: next, then } => {
                    self.map(step, fields, *next, then, origin, row, scratch, emit)?;
                }
                Node::Function { step, function, stage: next, then } => {
                    self.with_json(stage, record, scratch, |json, scratch| {
                        self.function(step, function.as_ref(), *next, then, origin, json, scratch, emit)
                    })?;
                }
                Node::Keyed(terminal) => {
                    encode_keyed(terminal, row, &mut scratch.key, &mut scratch.args, &mut scratch.id)?;
                    if terminal.record {
                        self.with_json(stage, record, scratch, |json, scratch| {
                            scratch.args.extend_from_slice(json);
                            Ok(())
                        })?;
                    }
                    let child = &mut scratch.children[terminal.group];
                    emit.keyed(terminal.group, *child, &scratch.key, &scratch.args);
                    *child += 1;
                }
                Node::Sink { sink } => self.with_json(stage, record, scratch, |json, _| {
                    emit.row(*sink, json);
                    Ok(())
                })?,
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
        origin: Origin<'_>,
        row: &Row<'_>,
        scratch: &mut Scratch,
        emit: &mut E,
    ) -> Result<(), StepFailure> {
        let mut record = std::mem::take(&mut scratch.records[next]);
        let mut slots = std::mem::take(&mut scratch.slots[next]);
        record.clear();
        let result = (|| {
            write_object(step, fields, row, &mut record)?;
            if scratch.check {
                let mut again = Vec::with_capacity(record.len());
                write_object(step, fields, row, &mut again)?;
                if again != record {
                    return Err(not_deterministic(step));
                }
            }
            let stage = &self.stages[next];
            if stage.scans {
                stage.scanner.scan(&record, &mut slots).map_err(|error| failure(step, error))?;
            }
            let row = Row::new(&record, &slots, &stage.scanner);
            self.walk(then, next, origin, &row, &record, scratch, emit)
        })();
        scratch.records[next] = record;
        scratch.slots[next] = slots;
        result
    }

    /// Hands on the record as JSON: as it is, if it is JSON already.
    #[inline]
    fn with_json(
        &self,
        stage: usize,
        record: &[u8],
        scratch: &mut Scratch,
        then: impl FnOnce(&[u8], &mut Scratch) -> Result<(), StepFailure>,
    ) -> Result<(), StepFailure> {
        let codec = &self.stages[stage].codec;
        if matches!(codec, Codec::Json) {
            return then(record, scratch);
        }
        let mut json = std::mem::take(&mut scratch.row);
        json.clear();
        let result = onceward_expr::record_to_json(codec, record, &mut json)
            .map_err(|error| failure("writing as JSON", error))
            .and_then(|()| then(&json, scratch));
        scratch.row = json;
        result
    }

    #[expect(clippy::too_many_arguments, reason = "the recursion's state, spelled out")]
    fn function<E: Emit>(
        &self,
        step: &str,
        function: &dyn MessageFunction,
        next: usize,
        then: &[Node],
        origin: Origin<'_>,
        record: &[u8],
        scratch: &mut Scratch,
        emit: &mut E,
    ) -> Result<(), StepFailure> {
        let message = Message {
            key: b"{}",
            payload: record,
            event_time: None,
            root: origin.root,
            position: origin.position,
            child: scratch.functions,
        };
        scratch.functions += 1;
        let outputs = call(function, &message).map_err(|error| failure(step, error))?;
        if scratch.check && call(function, &message).ok().as_ref() != Some(&outputs) {
            return Err(not_deterministic(step));
        }
        let mut slots = std::mem::take(&mut scratch.slots[next]);
        let stage = &self.stages[next];
        let result = outputs.iter().try_for_each(|output| {
            if stage.scans {
                stage.scanner.scan(output, &mut slots).map_err(|error| failure(step, error))?;
            }
            let row = Row::new(output, &slots, &stage.scanner);
            self.walk(then, next, origin, &row, output, scratch, emit)
        });
        scratch.slots[next] = slots;
        result
    }
}

/// Appends the object that a map makes.
fn write_object(
    step: &str,
    fields: &[(Vec<u8>, Program)],
    row: &Row<'_>,
    out: &mut Vec<u8>,
) -> Result<(), StepFailure> {
    out.push(b'{');
    for (index, (name, program)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(name);
        program.write_json(row, out).map_err(|error| failure(step, error))?;
    }
    out.push(b'}');
    Ok(())
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
    id: &mut Vec<u8>,
) -> Result<(), StepFailure> {
    key.clear();
    args.clear();
    if !terminal.id.is_empty() {
        id.clear();
        for slot in &terminal.id {
            let value = row.field(*slot).map_err(|error| failure(&terminal.step, error))?;
            let Some(value) = value.filter(|value| *value != Value::Null) else {
                let step = format!("{} dedupBy", terminal.step);
                let reason = "a field of the id is absent or null; every message needs an id".to_owned();
                return Err(StepFailure { step, reason });
            };
            value.encode_key(id);
        }
        put_bytes(args, id);
    }
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

fn call(
    function: &dyn MessageFunction,
    message: &Message<'_>,
) -> Result<Vec<Vec<u8>>, onceward_connector::FunctionError> {
    let mut outputs = Vec::new();
    function.on_message(message, &mut |output| outputs.push(output.to_vec()))?;
    Ok(outputs)
}

/// Found by the replay check: what was computed twice came out differently.
#[cold]
fn not_deterministic(step: &str) -> StepFailure {
    StepFailure {
        step: step.to_owned(),
        reason: "computed twice from the same message, it gave two results; a step must depend on nothing but the \
                 message: no clock, no randomness, no state, no input of its own"
            .to_owned(),
    }
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
