//! The table that a benchmark prints.

use super::measure::Measurement;
use std::fmt;

/// The goal for a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RatioTarget {
    AtLeast(f64),
    AtMost(f64),
    /// No goal; the figure is for information.
    None,
}

impl RatioTarget {
    /// Returns whether the goal is met; unclear if the quartiles disagree.
    fn met(self, (low, high): (f64, f64)) -> &'static str {
        let (good, bad) = match self {
            Self::AtLeast(limit) => (low >= limit, high < limit),
            Self::AtMost(limit) => (high <= limit, low > limit),
            Self::None => return "",
        };
        match (good, bad) {
            (true, _) => "yes",
            (_, true) => "no",
            _ => "unclear",
        }
    }
}

impl fmt::Display for RatioTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(limit) => write!(f, "≥ {limit}"),
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
            Self::None => Ok(()),
        }
    }
}

/// The unit of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Nanoseconds,
    PerSecond,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Nanoseconds if value < 1e3 => format!("{value:.1} ns"),
            Self::Nanoseconds if value < 1e6 => format!("{:.2} µs", value / 1e3),
            Self::Nanoseconds => format!("{:.2} ms", value / 1e6),
        }
    }
}

/// The rows so far.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<[String; 7]>,
}

impl Table {
    pub(crate) fn new() -> Self {
        let heads = ["what", "ours", "theirs", "ratio", "quartiles", "target", "met?"];
        Self { rows: vec![heads.map(String::from)] }
    }

    pub(crate) fn row(&mut self, what: &str, unit: Unit, pair: &Measurement, target: RatioTarget) {
        let spread @ (low, high) = pair.ratios.spread();
        self.rows.push([
            what.to_owned(),
            unit.show(pair.ours.median()),
            unit.show(pair.theirs.median()),
            format!("{:.3}", pair.ratios.median()),
            format!("{low:.3}–{high:.3}"),
            target.to_string(),
            target.met(spread).to_owned(),
        ]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let mut line = format!("{:<w$}", row[0], w = width(0));
            for (column, cell) in row.iter().enumerate().skip(1) {
                line.push_str(&format!("  {cell:>w$}", w = width(column)));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_inside_spread_is_unclear() {
        assert_eq!(RatioTarget::AtMost(1.02).met((1.00, 1.01)), "yes");
        assert_eq!(RatioTarget::AtMost(1.02).met((1.01, 1.03)), "unclear");
        assert_eq!(RatioTarget::AtLeast(30.0).met((20.0, 25.0)), "no");
        assert_eq!(RatioTarget::None.met((0.0, 1.0)), "");
    }
}
