//! Text to tokens.

use super::literal;
use crate::decimal::Decimal;
use crate::error::CompileError;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Name(String),
    /// A name between backticks: never a keyword.
    QuotedName(String),
    /// The magnitude: the sign is an operator, and -2^63 has no positive counterpart.
    Int(u64),
    Uint(u64),
    Decimal(Decimal),
    String(String),
    Bytes(Vec<u8>),
    Symbol(&'static str),
    End,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) offset: usize,
    pub(super) text_end: usize,
}

/// Longer ones before their beginnings.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

pub(super) fn tokens(source: &str) -> Result<Vec<Placed>, CompileError> {
    let mut lexer = Lexer { source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let placed = lexer.next()?;
        let done = placed.token == Token::End;
        tokens.push(placed);
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Result<Placed, CompileError> {
        self.skip_space();
        let offset = self.at;
        let token = match self.peek(0) {
            _ if self.at >= self.source.len() => Token::End,
            b'0'..=b'9' => self.number()?,
            b'.' if self.peek(1).is_ascii_digit() => self.number()?,
            b'"' | b'\'' => self.text(0)?,
            b'`' => self.quoted_name()?,
            b'r' | b'R' | b'b' | b'B' if self.prefix_len() > 0 => self.text(self.prefix_len())?,
            first if first == b'_' || first.is_ascii_alphabetic() => {
                Token::Name(self.take_while(is_name_byte).to_owned())
            }
            _ => self.symbol()?,
        };
        Ok(Placed { token, offset, text_end: self.at })
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0c if self.at < self.source.len() => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    let rest = &self.source[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn take_while(&mut self, accept: fn(u8) -> bool) -> &str {
        let start = self.at;
        while self.at < self.source.len() && accept(self.peek(0)) {
            self.at += 1;
        }
        &self.source[start..self.at]
    }

    /// How many of `r` and `b` stand before a quote here.
    fn prefix_len(&self) -> usize {
        let is_quote = |byte| matches!(byte, b'"' | b'\'');
        let (first, second) = (self.peek(0).to_ascii_lowercase(), self.peek(1).to_ascii_lowercase());
        if is_quote(second) {
            1
        } else if matches!((first, second), (b'r', b'b') | (b'b', b'r')) && is_quote(self.peek(2)) {
            2
        } else {
            0
        }
    }

    fn error(&self, code: &'static str, offset: usize, message: impl Into<String>) -> CompileError {
        CompileError::new(code, self.source, offset, message)
    }

    fn symbol(&mut self) -> Result<Token, CompileError> {
        let rest = &self.source[self.at..];
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        let found = rest.chars().next().unwrap_or(' ');
        let error = self.error(
            "OW-5002",
            self.at,
            format!("found `{}`, expected an expression", found.escape_debug()),
        );
        Err(match found {
            '=' => error.help("equality is `==`"),
            '&' => error.help("and is `&&`"),
            '|' => error.help("or is `||`"),
            _ => error.help("names that are not letters, digits and `_` stand between backticks"),
        })
    }

    fn quoted_name(&mut self) -> Result<Token, CompileError> {
        let start = self.at + 1;
        match self.source[start..].find(['`', '\n']) {
            Some(len) if len > 0 && self.source.as_bytes()[start + len] == b'`' => {
                self.at = start + len + 1;
                Ok(Token::QuotedName(self.source[start..start + len].to_owned()))
            }
            _ => Err(self.error("OW-5003", self.at, "a name between backticks is empty or does not end")),
        }
    }

    fn number(&mut self) -> Result<Token, CompileError> {
        let start = self.at;
        let hex = self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X');
        if hex {
            self.at += 2;
            self.take_while(|byte| byte.is_ascii_hexdigit());
        } else {
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let mut exact = true;
        if !hex && self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            exact = false;
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
        if !hex && matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
            exact = false;
            self.at += 1 + sign;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let text = &self.source[start..self.at];
        let unsigned = exact && matches!(self.peek(0), b'u' | b'U');
        self.at += usize::from(unsigned);
        if is_name_byte(self.peek(0)) {
            return Err(self
                .error("OW-5004", start, "a number is followed by a letter")
                .help("names do not begin with digits; put such a field name between backticks"));
        }
        if !exact {
            return Decimal::parse(text).map(Token::Decimal).ok_or_else(|| {
                self.error("OW-5004", start, "the number does not fit an exact decimal of 38 digits")
                    .help(format!("write double(\"{text}\") for a floating-point number"))
            });
        }
        let value = match hex {
            true => u64::from_str_radix(&text[2..], 16),
            false => text.parse(),
        };
        match value {
            Ok(value) if unsigned => Ok(Token::Uint(value)),
            Ok(value) => Ok(Token::Int(value)),
            Err(_) => Err(self.error("OW-5004", start, format!("`{text}` does not fit 64 bits"))),
        }
    }

    fn text(&mut self, prefix: usize) -> Result<Token, CompileError> {
        let start = self.at;
        let marks = self.source[start..start + prefix].to_ascii_lowercase();
        let (raw, bytes) = (marks.contains('r'), marks.contains('b'));
        self.at += prefix;
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let closing: Vec<u8> = vec![quote; if triple { 3 } else { 1 }];
        let body = self.at + closing.len();
        let all = self.source.as_bytes();
        let mut end = body;
        loop {
            let rest = all.get(end..).unwrap_or_default();
            if rest.starts_with(&closing) {
                break;
            }
            match rest.first() {
                None => return Err(self.error("OW-5003", start, "the string does not end")),
                Some(b'\n' | b'\r') if !triple => {
                    return Err(self
                        .error("OW-5003", start, "the string does not end on its line")
                        .help("write \\n, or use triple quotes"));
                }
                Some(b'\\') if !raw => end += 2,
                Some(_) => end += 1,
            }
        }
        let text = self.source.get(body..end).unwrap_or_default();
        self.at = end + closing.len();
        let escape_error = |(at, message)| self.error("OW-5003", body + at, message);
        Ok(match (raw, bytes) {
            (true, false) => Token::String(text.to_owned()),
            (true, true) => Token::Bytes(text.as_bytes().to_vec()),
            (false, false) => Token::String(literal::string(text).map_err(escape_error)?),
            (false, true) => Token::Bytes(literal::bytes(text).map_err(escape_error)?),
        })
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}
