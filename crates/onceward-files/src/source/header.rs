//! The columns of a CSV source: from the header line or the manifest, with the declared types.

use std::path::Path;
use std::sync::Arc;

use onceward_connector::{Column, ConnectorError, CsvSchema, FieldType};

/// What the manifest says about the columns.
#[derive(Clone, Debug, Default)]
pub struct CsvOptions {
    /// Between fields.
    pub delimiter: u8,
    /// Whether each file starts with a header line.
    pub header: bool,
    /// The column names, if the manifest gives them.
    pub columns: Vec<String>,
    /// Declared types by column name.
    pub types: Vec<(String, FieldType)>,
    /// Unquoted fields that mean "absent".
    pub null_values: Vec<String>,
}

/// The names in a header line.
pub fn parse_header(line: &[u8], delimiter: u8, path: &Path) -> Result<Vec<String>, ConnectorError> {
    let bad = |found: String| {
        ConnectorError::new(
            "OW-3006",
            format!(
                "the header line of {} {found}. Expected one unique name per column; correct the file, or set \
                 `header: false` and give `columns`",
                path.display()
            ),
        )
    };
    let text = std::str::from_utf8(line).map_err(|error| bad(format!("is not UTF-8: {error}")))?;
    let mut names: Vec<String> = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) =
            field(rest, delimiter).ok_or_else(|| bad("has a quote that is never closed".into()))?;
        if names.contains(&name) {
            return Err(bad(format!("names the column `{name}` twice")));
        }
        names.push(name);
        match after {
            Some(after) => rest = after,
            None => return Ok(names),
        }
    }
}

/// The first field of a line, and what follows its delimiter.
fn field(text: &str, delimiter: u8) -> Option<(String, Option<&str>)> {
    let delimiter = char::from(delimiter);
    let (mut name, mut rest) = (String::new(), text);
    if let Some(quoted) = text.strip_prefix('"') {
        rest = quoted;
        loop {
            let quote = rest.find('"')?;
            name.push_str(&rest[..quote]);
            rest = &rest[quote + 1..];
            match rest.strip_prefix('"') {
                Some(after) => {
                    name.push('"');
                    rest = after;
                }
                None => break,
            }
        }
    }
    match rest.split_once(delimiter) {
        Some((end, after)) => Some((name + end, Some(after))),
        None => Some((name + rest, None)),
    }
}

impl CsvOptions {
    /// The schema, given the names in the first file's header, if files have one.
    pub fn schema(&self, header: Option<(Vec<String>, &Path)>) -> Result<Arc<CsvSchema>, ConnectorError> {
        let names = match header {
            None => self.columns.clone(),
            Some((names, path)) => {
                if !self.columns.is_empty() && self.columns != names {
                    return Err(different_header(
                        path,
                        &names,
                        "the manifest's `columns`",
                        &self.columns,
                        Some("columns"),
                    ));
                }
                names
            }
        };
        for (name, _) in &self.types {
            if !names.contains(name) {
                return Err(unknown_column(name, &names));
            }
        }
        let type_of = |name: &str| self.types.iter().find(|(typed, _)| typed == name).map(|(_, kind)| *kind);
        let columns = names
            .into_iter()
            .map(|name| Column { field_type: type_of(&name).unwrap_or(FieldType::String), name })
            .collect();
        Ok(Arc::new(CsvSchema { columns, delimiter: self.delimiter, null_values: self.null_values.clone() }))
    }
}

/// A file whose header is not what it must be.
pub fn different_header(
    path: &Path,
    found: &[String],
    than: &str,
    expected: &[String],
    key: Option<&'static str>,
) -> ConnectorError {
    ConnectorError {
        code: "OW-3008",
        message: format!(
            "the header of {} differs from {than}: found [{}], expected [{}]. All files of one source have the same \
             columns in the same order; put files with other columns into a source of their own",
            path.display(),
            found.join(", "),
            expected.join(", ")
        ),
        key,
    }
}

fn unknown_column(name: &str, names: &[String]) -> ConnectorError {
    let nearest = names
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance <= name.len().max(known.len()) / 2);
    let hint = match nearest {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => format!("the columns are [{}]", names.join(", ")),
    };
    ConnectorError::config(
        "OW-3007",
        "types",
        format!("`types` names a column `{name}` that the files do not have: {hint}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Result<Vec<String>, ConnectorError> {
        parse_header(line.as_bytes(), b',', Path::new("f.csv"))
    }

    #[test]
    fn quoted_names_may_hold_delimiters_and_quotes() {
        assert_eq!(names("a,\"b,c\",\"d\"\"e\",").expect("good header"), ["a", "b,c", "d\"e", ""]);
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_by_name() {
        let error = names("a,b,a").expect_err("twice");
        assert_eq!(error.code, "OW-3006");
        assert!(error.message.contains("`a` twice") && error.message.contains("f.csv"), "{error}");
    }

    #[test]
    fn a_type_for_an_unknown_column_is_refused_with_the_nearest_name() {
        let options = CsvOptions { types: vec![("arr_dely".into(), FieldType::Int)], ..Default::default() };
        let header = vec!["dep_delay".to_owned(), "arr_delay".to_owned()];
        let error = options.schema(Some((header, Path::new("f.csv")))).expect_err("unknown");
        assert_eq!((error.code, error.key), ("OW-3007", Some("types")));
        assert!(error.message.contains("did you mean `arr_delay`?"), "{error}");
    }
}
