//! From text to tree.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::scalar::ScalarType;
use super::tree::{Entry, Kind, Node, Origin, Scalar, Style};
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::model::Place;

/// Nodes after aliases are followed; a manifest that needs more is an attack or a mistake.
const MAX_NODES: usize = 200_000;
/// Levels of nesting after aliases are followed.
const MAX_HEIGHT: u32 = 64;

/// Parses one document. A syntax error ends the reading, so there is one of it at most; a document
/// with duplicate keys or tags is still given, with their errors.
pub(crate) fn load(text: &str) -> (Option<Node>, Vec<Diagnostic>) {
    let mut loader = Loader::default();
    let root = loader.run(text);
    match root {
        Ok(None) if loader.problems.is_empty() => {
            let missing = Diagnostic::error(
                code::EMPTY,
                Place { line: 1, column: 1 },
                "",
                "the manifest is empty, expected `apiVersion`, `kind`, `metadata` and `spec`",
            );
            (None, vec![missing.with_help("`onceward init` writes one to start from")])
        }
        Ok(root) => (root, loader.problems),
        Err(fatal) => {
            loader.problems.push(fatal);
            (None, loader.problems)
        }
    }
}

/// A collection that is still open.
struct Open {
    place: Place,
    anchor: usize,
    height: u32,
    content: Content,
}

enum Content {
    Sequence(Vec<Node>),
    Mapping { entries: Vec<Entry>, keys: BTreeSet<String>, pending: Option<(String, Place)> },
}

#[derive(Default)]
struct Loader {
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
    root: Option<Node>,
    problems: Vec<Diagnostic>,
}

impl Loader {
    fn run(&mut self, text: &str) -> Result<Option<Node>, Diagnostic> {
        let mut documents = 0;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| syntax_error(&error, text))?;
            let place = place(&span.start);
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        let error = Diagnostic::error(
                            code::MULTIPLE_DOCUMENTS,
                            place,
                            "",
                            "a second YAML document begins here, expected one manifest per file",
                        );
                        return Err(error.with_help("move it to a file of its own"));
                    }
                }
                Event::Scalar(value, style, anchor, tag) => {
                    self.refuse_tag(tag.is_some(), place);
                    self.scalar(value.into_owned(), style, anchor, &span)?;
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.refuse_tag(tag.is_some(), place);
                    self.start(place, anchor, Content::Sequence(Vec::new()))?;
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.refuse_tag(tag.is_some(), place);
                    let content =
                        Content::Mapping { entries: Vec::new(), keys: BTreeSet::new(), pending: None };
                    self.start(place, anchor, content)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end()?,
                Event::Alias(anchor) => self.alias(anchor, place)?,
                _ => {}
            }
        }
        Ok(self.root.take())
    }

    fn refuse_tag(&mut self, tagged: bool, place: Place) {
        if tagged {
            let error = Diagnostic::error(
                code::NOT_PLAIN_YAML,
                place,
                "",
                "found a YAML tag, expected a plain value",
            );
            self.problems.push(error.with_help("remove the tag; write a text in quotes"));
        }
    }

    fn scalar(
        &mut self,
        text: String,
        style: ScalarStyle,
        anchor: usize,
        span: &Span,
    ) -> Result<(), Diagnostic> {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        // The parser gives an absent value as `~`; here it is what it is in the file, nothing.
        let text = if style == Style::Plain && span.is_empty() { String::new() } else { text };
        let scalar_type = if style == Style::Plain { ScalarType::of_plain(&text) } else { ScalarType::Text };
        let origin = Origin::File(span.byte_range().unwrap_or(0..0));
        let kind = Kind::Scalar(Scalar { text, scalar_type, style, origin });
        self.add(Node { place: place(&span.start), kind, height: 1 }, anchor, 1)
    }

    fn start(&mut self, place: Place, anchor: usize, content: Content) -> Result<(), Diagnostic> {
        if self.open.len() as u32 >= MAX_HEIGHT {
            return Err(too_large(place));
        }
        self.open.push(Open { place, anchor, height: 0, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let kind = match open.content {
            Content::Sequence(items) => Kind::Sequence(items),
            Content::Mapping { entries, .. } => Kind::Mapping(entries),
        };
        self.add(Node { place: open.place, kind, height: open.height + 1 }, open.anchor, 1)
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Diagnostic> {
        match self.anchors.get(&anchor) {
            Some((node, size)) => {
                let (size, height) = (*size, node.height);
                if self.nodes + size > MAX_NODES || self.open.len() as u32 + height > MAX_HEIGHT {
                    return Err(too_large(place));
                }
                let node = node.clone();
                self.add(node, 0, size)
            }
            None => Err(Diagnostic::error(
                code::SYNTAX,
                place,
                "",
                "an alias to a value that contains it, expected an alias to a value that is complete",
            )),
        }
    }

    /// Puts a complete node where it belongs. `new` nodes count against the limit: an alias brings
    /// its whole copy, a collection only itself.
    fn add(&mut self, node: Node, anchor: usize, new: usize) -> Result<(), Diagnostic> {
        self.nodes += new;
        if self.nodes > MAX_NODES {
            return Err(too_large(node.place));
        }
        if anchor != 0 {
            let size = count(&node);
            self.nodes += size;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.content {
            Content::Sequence(items) => {
                open.height = open.height.max(node.height);
                items.push(node);
            }
            Content::Mapping { entries, keys, pending } => match pending.take() {
                Some((key, key_place)) => {
                    open.height = open.height.max(node.height);
                    entries.push(Entry { key, key_place, value: node });
                }
                None => {
                    let key = key_text(&node, &mut self.problems);
                    if !keys.insert(key.clone()) {
                        let before = entries.iter().find(|entry| entry.key == key);
                        let line = before.map_or(0, |entry| entry.key_place.line);
                        let message =
                            format!("the key `{key}` stands twice in one map, first in line {line}");
                        let error = Diagnostic::error(code::DUPLICATE_KEY, node.place, "", message);
                        self.problems.push(error.with_help("remove or rename one of them"));
                    }
                    *pending = Some((key, node.place));
                }
            },
        }
        Ok(())
    }
}

/// The text of a key; a key that is none gets an error and a text that no table knows.
fn key_text(node: &Node, problems: &mut Vec<Diagnostic>) -> String {
    let refuse = |message: &str, help: &str| {
        Diagnostic::error(code::NOT_PLAIN_YAML, node.place, "", message.to_owned()).with_help(help)
    };
    match node.as_scalar() {
        Some(scalar) if scalar.style == Style::Plain && scalar.text == "<<" => {
            problems.push(refuse(
                "found the merge key `<<`, which is not read",
                "use an alias for a whole value, or repeat the keys",
            ));
            scalar.text.clone()
        }
        Some(scalar) if scalar.scalar_type != ScalarType::Null => scalar.text.clone(),
        _ => {
            let message = format!("found {} as a key, expected a text", node.found());
            problems.push(refuse(&message, "write the key as a text, in quotes if need be"));
            String::new()
        }
    }
}

/// Nodes in a tree. The height of every node is bounded when it is built.
fn count(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar(_) => 1,
        Kind::Sequence(items) => 1 + items.iter().map(count).sum::<usize>(),
        Kind::Mapping(entries) => 1 + entries.iter().map(|entry| count(&entry.value)).sum::<usize>(),
    }
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line() as u32, column: marker.col() as u32 + 1 }
}

fn too_large(place: Place) -> Diagnostic {
    let message = format!(
        "the manifest nests deeper than {MAX_HEIGHT} levels or holds more than {MAX_NODES} values, aliases followed"
    );
    Diagnostic::error(code::TOO_LARGE, place, "", message).with_help("make it smaller, or use fewer aliases")
}

fn syntax_error(error: &granit_parser::ScanError, text: &str) -> Diagnostic {
    let place = place(error.marker());
    let line = text.lines().nth((place.line as usize).saturating_sub(1)).unwrap_or_default();
    let diagnostic = Diagnostic::error(code::SYNTAX, place, "", format!("not YAML: {}", error.info()));
    if line.contains('\t') && line.trim_start_matches(' ').starts_with('\t') {
        diagnostic.with_help("indent with spaces, not with tabs")
    } else if line.contains("${") {
        diagnostic.with_help("put a value with `${...}` in double quotes inside `{ }` and `[ ]`")
    } else if line.contains(": ") && line.matches(": ").count() > 1 {
        diagnostic.with_help("put a value that contains `: ` in quotes, an expression with `? :` for example")
    } else {
        diagnostic
    }
}
