//! Expressions: CEL over lazily scanned fields, exact numbers.
