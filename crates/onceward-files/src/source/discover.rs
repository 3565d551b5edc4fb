//! Which files a glob means, and by which names they are known.
//!
//! The glob is split into a base folder, whose name is fixed, and a pattern below it. A partition's
//! name is a file's path below the base folder, so a project folder that is moved as a whole keeps
//! the identity of its partitions.

use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use onceward_connector::ConnectorError;

use super::input::io_error;

/// Stars never match a `/` or a leading dot, so bookkeeping folders are never taken for data.
const MATCH: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A glob, split.
#[derive(Debug, PartialEq, Eq)]
struct Split {
    base: PathBuf,
    /// Escaped where a name with special characters is meant literally.
    pattern: String,
}

fn is_special(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Checks a glob without looking at the file system.
pub fn check(glob: &Path) -> Result<(), ConnectorError> {
    let text = glob.to_str().ok_or_else(|| bad_glob(glob, "it is not UTF-8"))?;
    if text.ends_with('/') || glob.file_name().is_none() {
        return Err(bad_glob(glob, "it names a folder; name the files in it, for example with `*.jsonl`"));
    }
    let name = glob.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Pattern::new(name).map_err(|error| bad_glob(glob, error.msg))?;
    Ok(())
}

fn bad_glob(glob: &Path, why: &str) -> ConnectorError {
    ConnectorError::config(
        "OW-3001",
        "path",
        format!(
            "`{}` is not a usable path or glob: {why}. Use `*` for any characters, `?` for one, `[ab]` for a choice, `**` \
             for folders of any depth, and `[[]` for a bracket itself",
            glob.display()
        ),
    )
}

/// A name with special characters that exists just so is meant literally: a project may live in a
/// folder called `[old]`.
fn split(glob: &Path) -> Result<Split, ConnectorError> {
    let mut base = PathBuf::new();
    let mut pattern: Vec<String> = Vec::new();
    let mut components = glob.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            match pattern.is_empty() {
                true => base.push(component),
                false => pattern.push(component.as_os_str().to_string_lossy().into_owned()),
            }
            continue;
        };
        let text = name.to_str().ok_or_else(|| bad_glob(glob, "it is not UTF-8"))?;
        let last = components.peek().is_none();
        let literal = !is_special(text) || (pattern.is_empty() && base.join(name).exists());
        match (literal, last || !pattern.is_empty()) {
            (true, false) => base.push(name),
            (true, true) => pattern.push(Pattern::escape(text)),
            (false, _) => pattern.push(text.to_owned()),
        }
    }
    Ok(Split { base, pattern: pattern.join("/") })
}

/// The folder below which the files of a glob lie.
pub fn base(glob: &Path) -> Result<PathBuf, ConnectorError> {
    Ok(split(glob)?.base)
}

/// The names of the files that match now, sorted. No match is an error.
pub fn names(glob: &Path) -> Result<Vec<String>, ConnectorError> {
    let Split { base, pattern } = split(glob)?;
    let base_text = base.to_str().ok_or_else(|| bad_glob(glob, "it is not UTF-8"))?;
    let full = Path::new(&Pattern::escape(base_text)).join(&pattern);
    let full = full.to_str().ok_or_else(|| bad_glob(glob, "it is not UTF-8"))?;
    let mut names = Vec::new();
    for path in glob::glob_with(full, MATCH).map_err(|error| bad_glob(glob, error.msg))? {
        let path = path.map_err(|error| io_error(error.path(), "cannot be listed", error.error()))?;
        if path.is_dir() {
            continue;
        }
        let name = path.strip_prefix(&base).unwrap_or(&path);
        let name = name.to_str().ok_or_else(|| {
            ConnectorError::new(
                "OW-3009",
                format!(
                    "the file name {} is not UTF-8, and a partition's name must be. Rename the file",
                    path.display()
                ),
            )
        })?;
        names.push(name.to_owned());
    }
    if names.is_empty() {
        let folder = if base.is_dir() { "the folder" } else { "the folder does not exist:" };
        return Err(ConnectorError::config(
            "OW-3002",
            "path",
            format!(
                "no file matches `{pattern}` in {folder} {}. Relative paths are relative to the manifest's folder; check \
                 the path and the file names",
                base.display()
            ),
        ));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: PathBuf) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
        std::fs::write(path, "").expect("file");
    }

    #[test]
    fn names_are_sorted_and_relative_so_that_a_moved_folder_keeps_them() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (before, after) = (dir.path().join("a"), dir.path().join("b"));
        for file in ["data/y.csv", "data/x.csv", "data/.hidden.csv", "data/sub/z.csv", "data/x.txt"] {
            touch(before.join(file));
        }
        assert_eq!(names(&before.join("data/*.csv")).expect("names"), ["x.csv", "y.csv"]);
        assert_eq!(names(&before.join("data/**/*.csv")).expect("names"), ["sub/z.csv", "x.csv", "y.csv"]);
        std::fs::rename(&before, &after).expect("move");
        assert_eq!(names(&after.join("data/*.csv")).expect("names"), ["x.csv", "y.csv"]);
        assert_eq!(names(&after.join("data/x.csv")).expect("names"), ["x.csv"]);
    }

    #[test]
    fn a_folder_with_brackets_in_its_name_is_taken_literally() {
        let dir = tempfile::tempdir().expect("temp dir");
        touch(dir.path().join("[old]/data/x[1].csv"));
        touch(dir.path().join("[old]/data/x1.csv"));
        assert_eq!(names(&dir.path().join("[old]/data/*.csv")).expect("names"), ["x1.csv", "x[1].csv"]);
        assert_eq!(names(&dir.path().join("[old]/data/x[1].csv")).expect("names"), ["x[1].csv"]);
    }

    #[test]
    fn no_match_names_the_glob_and_the_folder() {
        let dir = tempfile::tempdir().expect("temp dir");
        let error = names(&dir.path().join("flights-*.csv")).expect_err("nothing there");
        assert_eq!(error.code, "OW-3002");
        assert!(error.message.contains("flights-*.csv"), "{error}");
        assert!(error.message.contains(dir.path().to_str().expect("utf-8")), "{error}");
    }

    #[test]
    fn a_bad_glob_is_refused_without_looking_at_the_disk() {
        for glob in ["/data/***.csv", "/data/[a.csv", "/data/"] {
            assert_eq!(check(Path::new(glob)).expect_err("bad").code, "OW-3001", "{glob}");
        }
        assert!(check(Path::new("/data/[[]a.csv")).is_ok());
    }
}
