//! Markdown tables.

/// Rows of cells under a head.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|s| s.to_string()).collect(), vec!["---".to_owned(); head.len()]] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn print(&self, title: &str) {
        print!("{}", self.text(title));
    }

    /// What is printed.
    pub(crate) fn text(&self, title: &str) -> String {
        let rows: String = self.rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
        format!("\n{title}\n\n{rows}")
    }
}

/// Three significant digits.
pub(crate) fn short(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

/// The middle of some measurements; between the two middle ones where their number is even.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) && half > 0 { (at(half - 1) + at(half)) / 2.0 } else { at(half) }
}
