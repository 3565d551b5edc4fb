//! Where one record ends and the next begins: the only thing the source must know of its formats.

use memchr::{memchr, memchr_iter, memchr2};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What separates records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// Every line end ends a record.
    Plain,
    /// A line end inside quotes belongs to the record; quotes open at the start of a field only.
    Csv {
        /// Between fields.
        delimiter: u8,
    },
}

/// What lies at the start of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// A record: its payload from `start` to `end`; the next one begins at `next`.
    Record {
        /// First payload byte.
        start: usize,
        /// After the last payload byte.
        end: usize,
        /// Where the next record begins.
        next: usize,
        /// Line ends up to `next`.
        lines: u64,
    },
    /// Nothing but white space up to `next`.
    Blank {
        /// Where the next record begins.
        next: usize,
    },
    /// The data ends before the record does.
    More,
    /// The stream ends inside quotes.
    OpenQuote,
}

/// Finds records one after another. Called again after [`Split::More`] with the same start and more
/// data, it goes on where it had stopped, so that a long record is searched once.
#[derive(Debug)]
pub struct Splitter {
    lines: Lines,
    /// Whether the data starts at the first byte of the file, where a byte order mark may stand.
    at_start: bool,
    scanned: usize,
    quoted: bool,
    inner_lines: u64,
}

impl Splitter {
    /// A splitter that starts at a record; `at_start` if that is the first of the file.
    pub fn new(lines: Lines, at_start: bool) -> Self {
        Splitter { lines, at_start, scanned: 0, quoted: false, inner_lines: 0 }
    }

    /// Looks at data that starts with a record. `last` says that no data will ever follow.
    #[inline]
    pub fn next(&mut self, data: &[u8], last: bool) -> Split {
        let mut start = 0;
        if self.at_start {
            if data.starts_with(BYTE_ORDER_MARK) {
                start = BYTE_ORDER_MARK.len();
                self.scanned = self.scanned.max(start);
            } else if !last && BYTE_ORDER_MARK.starts_with(data) {
                return Split::More;
            }
        }
        let line_end = match self.lines {
            Lines::Plain => memchr(b'\n', &data[self.scanned..]).map(|at| self.scanned + at),
            Lines::Csv { delimiter } => self.csv_line_end(data, start, delimiter, last),
        };
        let Some(line_end) = line_end else {
            if self.lines == Lines::Plain {
                self.scanned = data.len();
            }
            if !last || data.is_empty() {
                return Split::More;
            }
            if self.quoted {
                return Split::OpenQuote;
            }
            return self.found(data, start, data.len(), data.len(), 0);
        };
        self.found(data, start, line_end, line_end + 1, 1)
    }

    #[inline]
    fn found(&mut self, data: &[u8], start: usize, line_end: usize, next: usize, ends: u64) -> Split {
        let lines = self.inner_lines + ends;
        *self = Splitter { lines: self.lines, at_start: false, scanned: 0, quoted: false, inner_lines: 0 };
        let mut end = line_end;
        if end > start && data[end - 1] == b'\r' {
            end -= 1;
        }
        let line = &data[start..end];
        let blank = match self.lines {
            Lines::Plain => match line.first() {
                None => true,
                Some(b' ' | b'\t' | b'\r') => line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')),
                Some(_) => false,
            },
            Lines::Csv { .. } => line.is_empty(),
        };
        if blank { Split::Blank { next } } else { Split::Record { start, end, next, lines } }
    }

    fn csv_line_end(&mut self, data: &[u8], start: usize, delimiter: u8, last: bool) -> Option<usize> {
        loop {
            if self.quoted {
                let Some(at) = memchr(b'"', &data[self.scanned..]) else {
                    self.inner_lines += memchr_iter(b'\n', &data[self.scanned..]).count() as u64;
                    self.scanned = data.len();
                    return None;
                };
                let quote = self.scanned + at;
                self.inner_lines += memchr_iter(b'\n', &data[self.scanned..quote]).count() as u64;
                self.scanned = quote;
                match data.get(quote + 1) {
                    Some(b'"') => self.scanned = quote + 2,
                    Some(_) => {
                        self.quoted = false;
                        self.scanned = quote + 1;
                    }
                    // Whether it closes or is half of a doubled quote is decided by the next byte.
                    None if !last => return None,
                    None => {
                        self.quoted = false;
                        self.scanned = quote + 1;
                    }
                }
            } else {
                let Some(at) = memchr2(b'\n', b'"', &data[self.scanned..]) else {
                    self.scanned = data.len();
                    return None;
                };
                let at = self.scanned + at;
                if data[at] == b'\n' {
                    return Some(at);
                }
                self.quoted = at == start || data[at - 1] == delimiter;
                self.scanned = at + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: Lines, data: &str) -> Vec<String> {
        let (mut splitter, mut at, mut found) = (Splitter::new(lines, true), 0, Vec::new());
        loop {
            match splitter.next(&data.as_bytes()[at..], true) {
                Split::Record { start, end, next, .. } => {
                    found.push(data[at + start..at + end].to_owned());
                    at += next;
                }
                Split::Blank { next } => at += next,
                Split::More => return found,
                Split::OpenQuote => {
                    found.push("open quote".to_owned());
                    return found;
                }
            }
        }
    }
    const CSV: Lines = Lines::Csv { delimiter: b',' };

    #[test]
    fn a_line_end_inside_quotes_belongs_to_the_record() {
        assert_eq!(all(CSV, "a,\"b\nc\"\nd,e\r\n"), ["a,\"b\nc\"", "d,e"]);
        assert_eq!(all(CSV, "\"a\"\"\n\",b\nc"), ["\"a\"\"\n\",b", "c"]);
    }

    #[test]
    fn a_quote_in_the_middle_of_a_field_is_an_ordinary_character() {
        assert_eq!(all(CSV, "5\" pipe,1\nnext,2\n"), ["5\" pipe,1", "next,2"]);
        assert_eq!(all(CSV, "\"a\"b\"c,1\nnext,2\n"), ["\"a\"b\"c,1", "next,2"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_even_before_a_quote() {
        assert_eq!(all(CSV, "\u{feff}\"a\nb\",c\n1,2\n"), ["\"a\nb\",c", "1,2"]);
        assert_eq!(all(Lines::Plain, "\u{feff}{}\n"), ["{}"]);
    }

    #[test]
    fn blank_lines_are_no_records() {
        assert_eq!(all(Lines::Plain, "\n{}\n \t\r\n\r\n{\"a\":1}\n\n"), ["{}", "{\"a\":1}"]);
        assert_eq!(all(CSV, "a\n\n\r\nb\n"), ["a", "b"]);
    }

    #[test]
    fn a_file_that_ends_inside_quotes_is_told_apart_from_a_record() {
        assert_eq!(all(CSV, "a,b\nc,\"d\n"), ["a,b", "open quote"]);
        assert_eq!(all(CSV, "a,\"d\""), ["a,\"d\""]);
    }

    #[test]
    fn data_that_grows_byte_by_byte_gives_the_same_records() {
        let data = b"\xEF\xBB\xBF\"a\"\"x\n\",b\r\n1,\"2\"\n\n3,4";
        let (mut splitter, mut at, mut found) = (Splitter::new(CSV, true), 0, Vec::new());
        for seen in 0..=data.len() {
            loop {
                match splitter.next(&data[at..seen], seen == data.len()) {
                    Split::Record { start, end, next, .. } => {
                        found.push(data[at + start..at + end].to_vec());
                        at += next;
                    }
                    Split::Blank { next } => at += next,
                    Split::More => break,
                    Split::OpenQuote => panic!("no quote is open"),
                }
            }
        }
        assert_eq!(found, [&b"\"a\"\"x\n\",b"[..], b"1,\"2\"", b"3,4"]);
    }
}
