//! Diagnostics for a terminal: the place, the line itself with a caret below, what to do.

use std::fmt::Write as _;

use crate::diagnostic::{Diagnostic, Severity};

/// Longest piece of a manifest line that is shown, in characters.
const MAX_SHOWN: usize = 120;

/// Renders all diagnostics, each followed by a blank line but the last. `coloured` adds terminal colours.
pub fn render(diagnostics: &[Diagnostic], text: &str, file_name: &str, coloured: bool) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let blocks: Vec<String> =
        diagnostics.iter().map(|item| render_one(item, &lines, file_name, coloured)).collect();
    blocks.join("\n")
}

fn render_one(item: &Diagnostic, lines: &[&str], file_name: &str, coloured: bool) -> String {
    let paint = |code: &str, text: &str| {
        if coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    };
    let (word, colour) = match item.severity {
        Severity::Error => ("error", "1;31"),
        Severity::Warning => ("warning", "1;33"),
    };
    let place = if item.place.line > 0 {
        format!("{file_name}:{}:{}", item.place.line, item.place.column)
    } else {
        file_name.to_owned()
    };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{}: {}: {}",
        paint("1", &place),
        paint(colour, &format!("{word} {}", item.code)),
        printable(&item.message)
    );
    if let Some(line) = (item.place.line as usize).checked_sub(1).and_then(|index| lines.get(index)) {
        let (shown, caret) = window(line, item.place.column.saturating_sub(1) as usize);
        let number = item.place.line.to_string();
        let _ = writeln!(out, "  {number} | {shown}");
        let _ = writeln!(out, "  {} | {}{}", " ".repeat(number.len()), caret, paint(colour, "^"));
    }
    if !item.path.is_empty() {
        let _ = writeln!(out, "  at: {}", printable(&item.path));
    }
    if let Some(help) = &item.help {
        let _ = writeln!(out, "  {}: {}", paint("1;36", "help"), printable(help));
    }
    out
}

/// The part of the line around the column, and the blanks that lead to the caret below it.
fn window(line: &str, column: usize) -> (String, String) {
    let characters: Vec<char> = line.trim_end().chars().collect();
    let column = column.min(characters.len());
    let first = if column < MAX_SHOWN { 0 } else { column - MAX_SHOWN / 2 };
    let last = characters.len().min(first + MAX_SHOWN);
    let mut shown: String = characters[first..last].iter().map(|c| visible(*c)).collect();
    if last < characters.len() {
        shown.push_str("...");
    }
    let mut caret: String =
        characters[first..column].iter().map(|c| if *c == '\t' { '\t' } else { ' ' }).collect();
    if first > 0 {
        shown.insert_str(0, "...");
        caret.insert_str(0, "   ");
    }
    (shown, caret)
}

/// A manifest must not be able to send control sequences to the terminal.
fn printable(text: &str) -> String {
    text.chars().map(visible).collect()
}

fn visible(c: char) -> char {
    if c.is_control() && c != '\t' { '\u{fffd}' } else { c }
}
