//! Tables of text.

/// How a column is aligned.
#[derive(Clone, Copy)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a header; every row has as many cells as the header.
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(header: &[(&str, Align)]) -> Self {
        let names = header.iter().map(|(name, _)| (*name).to_owned()).collect();
        Table { columns: header.iter().map(|(_, align)| *align).collect(), rows: vec![names] }
    }
    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    /// The lines, each ended, without blanks at their ends.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&self.columns)
                .zip(&widths)
                .map(|((cell, align), width)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                })
                .collect();
            out.push_str(cells.join("  ").trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_left_and_numbers_right() {
        let mut table =
            Table::new(&[("sources", Align::Left), ("rows", Align::Right), ("note", Align::Left)]);
        table.row(vec!["a".into(), "1,000".into(), "".into()]);
        table.row(vec!["long name".into(), "7".into(), "x".into()]);
        assert_eq!(table.text(), "sources     rows  note\na          1,000\nlong name      7  x\n");
    }
}
