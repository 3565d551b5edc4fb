//! Output that a closed pipe or a full disk cannot turn into a panic.

use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

/// Prints text on standard output. A reader that has gone wants no more of it, which is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(drop)
}

/// The same, for what has no end of its own: answers whether anybody still reads.
pub fn print_on(text: &str) -> Result<bool, Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Write { path: "standard output".into(), source: error }),
    }
}

/// Prints a line on standard error. There is nowhere left to say that it did not work.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", line.trim_end_matches('\n'));
}

/// Whether standard error takes colours.
pub fn coloured() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    io::stderr().is_terminal()
        && unset("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// What came from outside must not be able to send control sequences to the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
