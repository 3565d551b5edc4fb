//! The nearest known word to one that is not known.

/// The known word that was probably meant: the same word in another spelling (`snake_case`,
/// `kebab-case`, other capitals), else one that begins like it or has few differing letters.
pub(crate) fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bare = bare(found);
    let mut best: Option<(usize, &'a str)> = None;
    for word in known {
        if word == found {
            continue;
        }
        let other = self::bare(word);
        if other == bare {
            return Some(word);
        }
        let shorter = other.len().min(bare.len());
        if shorter >= 3 && (other.starts_with(&bare) || bare.starts_with(&other)) {
            best = Some((0, word));
            continue;
        }
        let distance = strsim::osa_distance(&bare, &other);
        let allowed = (other.chars().count().max(bare.chars().count()) / 3).clamp(1, 3);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, word));
        }
    }
    best.map(|(_, word)| word)
}

/// The help line for it.
pub(crate) fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(found, known).map(|word| format!("did you mean `{word}`?"))
}

/// `a, b or c`, each in backticks.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
    }
}

fn bare(word: &str) -> String {
    word.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_come_before_near_letters() {
        let known = ["allowedLateness", "groupBy", "window"];
        assert_eq!(nearest("allowed_lateness", known), Some("allowedLateness"));
        assert_eq!(nearest("group-by", known), Some("groupBy"));
        assert_eq!(nearest("windwo", known), Some("window"));
        assert_eq!(nearest("integer", ["string", "int", "decimal"]), Some("int"));
        assert_eq!(nearest("zebra", known), None);
    }

    #[test]
    fn short_words_do_not_match_everything() {
        assert_eq!(nearest("a", ["xyz"]), None);
        assert_eq!(nearest("", ["xy"]), None);
    }
}
