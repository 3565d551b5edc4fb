//! The docs hold every key and code exactly as the tables have them.

use crate::code;
use crate::reference;

const BEGIN: &str = "<!-- reference: printed from the field tables, do not edit -->\n";

#[test]
fn the_reference_in_the_docs_is_that_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manifest.md");
    let text = std::fs::read_to_string(path).expect("docs/manifest.md");
    let (intro, found) = text.split_once(BEGIN).expect("the line that begins the reference");
    let expected = reference();
    if found != expected && std::env::var_os("ONCEWARD_BLESS").is_some() {
        std::fs::write(path, format!("{intro}{BEGIN}{expected}")).expect("docs/manifest.md is writable");
        return;
    }
    assert_eq!(found, expected, "run this test with ONCEWARD_BLESS=1 to print the reference anew");
}

#[test]
fn codes_are_unique_and_sorted() {
    let codes: Vec<&str> = code::ALL.iter().map(|(code, _)| *code).collect();
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(codes, sorted);
    let declared = include_str!("../code.rs").matches("\npub const OW").count()
        + include_str!("../code.rs").matches(": &str = \"OW-").count();
    assert_eq!(codes.len(), declared);
}

#[test]
fn the_manifest_in_the_docs_is_accepted() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manifest.md");
    let text = std::fs::read_to_string(path).expect("docs/manifest.md");
    let (_, rest) = text.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    super::accepted(example);
}
