//! Rows and columns on a terminal of limited width.

use super::{Location, switch::SwitchReason};
use crate::{
    RenderOptions,
    line::{Style, StyledLine, cut, cut_front, width, wrapped},
};
use unsnarl_model::ThreadIx;

/// The column of a thread.
pub(crate) struct Column {
    pub(crate) thread: ThreadIx,
    /// The thread's id and name.
    pub(crate) title: String,
    /// The function that it runs; may be empty.
    pub(crate) function: String,
    /// The numbers of its first and last event.
    pub(crate) alive: (usize, usize),
}

impl Column {
    /// Returns whether the thread's lifeline passes the row before this event.
    const fn is_alive(&self, at: usize) -> bool {
        self.alive.0 < at && at <= self.alive.1
    }

    /// Returns the thread's id, without its name.
    fn id(&self) -> &str {
        self.title.split(' ').next().unwrap_or_default()
    }
}

/// A row. `at` is the number of the event before which it stands.
pub(super) enum Row {
    /// `shown` is the number that it has as an event of the trace; a plain access may have none.
    Event {
        number: usize,
        shown: Option<usize>,
        column: usize,
        words: String,
        location: Location,
        source: String,
    },
    Switch {
        at: usize,
        from: usize,
        to: usize,
        reason: SwitchReason,
    },
    LeftOut {
        at: usize,
        column: Option<usize>,
        events: usize,
        switches: usize,
    },
    End {
        at: usize,
        column: usize,
        words: String,
        location: Location,
        source: String,
    },
}

impl Row {
    pub(super) fn location(&self) -> Option<&Location> {
        match self {
            Self::Event { location, .. } | Self::End { location, .. } => Some(location),
            Self::Switch { .. } | Self::LeftOut { .. } => None,
        }
    }

    pub(super) fn location_mut(&mut self) -> Option<&mut Location> {
        match self {
            Self::Event { location, .. } | Self::End { location, .. } => Some(location),
            Self::Switch { .. } | Self::LeftOut { .. } => None,
        }
    }

    fn at(&self) -> usize {
        match *self {
            Self::Event { number, .. } => number,
            Self::Switch { at, .. } | Self::LeftOut { at, .. } | Self::End { at, .. } => at,
        }
    }

    /// Returns the text in a thread's column, and the column.
    fn cell(&self) -> Option<(usize, &str)> {
        match self {
            Self::Event { column, words, .. } | Self::End { column, words, .. } => Some((*column, words)),
            Self::Switch { .. } | Self::LeftOut { .. } => None,
        }
    }
}

/// Blanks between columns.
const GAP: usize = 2;
/// Maximum column widths; longer text extends over the empty columns to the right.
const WIDEST: [usize; 4] = [34, 26, 20, 14];
/// Minimum width for showing a source line.
const SOURCE: usize = 18;
/// Maximum width of a location; the end of a path is kept, because it distinguishes files.
const LOCATION: usize = 28;

/// Positions in the table.
struct TableLayout {
    /// The start of each thread's column; with only one entry, lines begin with the thread's id.
    columns: Vec<usize>,
    ids: bool,
    location: usize,
    source: usize,
}

/// The rows and columns to show.
pub(super) struct Table<'a> {
    columns: &'a [Column],
    rows: &'a [Row],
    options: &'a RenderOptions,
    /// The column at which event numbers end.
    gutter: usize,
    layout: TableLayout,
}

impl<'a> Table<'a> {
    pub(super) fn new(columns: &'a [Column], rows: &'a [Row], options: &'a RenderOptions) -> Self {
        let largest = rows.iter().map(Row::at).max().unwrap_or(0);
        let gutter = width(&largest.to_string()).max(3);
        let layout = TableLayout::choose(columns, rows, gutter + GAP, options.width);
        Self { columns, rows, options, gutter, layout }
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for line in self.header().into_iter().chain(self.rows.iter().flat_map(|row| self.lines(row))) {
            text += &line.render(self.options.colour);
            text.push('\n');
        }
        text
    }

    fn header(&self) -> Vec<StyledLine> {
        let mut lines = if self.layout.ids { self.legend() } else { self.heads() };
        if !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        lines
    }

    /// Returns the headings of the columns.
    fn heads(&self) -> Vec<StyledLine> {
        let (mut titles, mut functions) = (StyledLine::default(), StyledLine::default());
        for (nth, column) in self.columns.iter().enumerate() {
            let start = self.layout.columns[nth];
            let room = self.layout.end(nth) - start - 1;
            titles.put(start, &cut(&column.title, room), Style::Bold);
            functions.put(start, &cut(&column.function, room), Style::Thread(nth));
        }
        [titles, functions].into_iter().filter(|line| !line.is_empty()).collect()
    }

    /// Returns the list of threads, for layouts without columns.
    fn legend(&self) -> Vec<StyledLine> {
        let wide = self.columns.iter().map(|column| width(&column.title)).max().unwrap_or(0);
        let entry = |(nth, column): (usize, &Column)| {
            let mut line = StyledLine::default();
            line.put(0, &cut(&column.title, self.options.width), Style::Bold);
            let room = self.options.width.saturating_sub(wide + GAP);
            line.put(wide + GAP, &cut(&column.function, room), Style::Thread(nth));
            line
        };
        self.columns.iter().enumerate().map(entry).collect()
    }

    /// Returns the lines of a row: several if its text does not fit beside the next thread's lifeline.
    fn lines(&self, row: &Row) -> Vec<StyledLine> {
        let mut line = self.lifelines(row);
        match row {
            Row::Event { shown, column, words, location, source, .. } => {
                let number = shown.map(|number| number.to_string()).unwrap_or_default();
                line.put(self.gutter - width(&number), &number, Style::Dim);
                self.source(&mut line, location, source);
                self.cell(line, row, *column, words, location, Style::Thread(*column))
            }
            Row::End { column, words, location, source, .. } => {
                self.source(&mut line, location, source);
                self.cell(line, row, *column, words, location, Style::Failure)
            }
            Row::Switch { at, from, to, reason } => {
                self.switch(&mut line, *at, *from, *to, reason);
                vec![line]
            }
            Row::LeftOut { column, events, switches, .. } => {
                let mut words = format!("⋮ {events} more events");
                if *switches > 0 {
                    words += &format!(" with {switches} context switches");
                }
                self.cell(line, row, column.unwrap_or(0), &words, &Location::default(), Style::Dim)
            }
        }
    }

    /// Returns a line with nothing but the lifelines of the threads that are alive.
    fn lifelines(&self, row: &Row) -> StyledLine {
        let mut line = StyledLine::default();
        if !self.layout.ids {
            for (column, &start) in self.columns.iter().zip(&self.layout.columns) {
                if column.is_alive(row.at()) {
                    line.put(start, "│", Style::Dim);
                }
            }
        }
        line
    }

    /// Returns where the lifeline of the next thread is, beyond this column.
    fn next_lifeline(&self, at: usize, column: usize) -> Option<usize> {
        let later = self.columns.iter().zip(&self.layout.columns).skip(column + 1);
        let mut alive = later.filter(|(column, _)| !self.layout.ids && column.is_alive(at));
        alive.next().map(|(_, &start)| start)
    }

    fn cell(
        &self,
        mut line: StyledLine,
        row: &Row,
        column: usize,
        words: &str,
        location: &Location,
        style: Style,
    ) -> Vec<StyledLine> {
        let start = self.layout.columns[column];
        // Without a location there is more room.
        let end = if location.text().is_empty() { self.options.width } else { self.layout.location };
        let end = self.next_lifeline(row.at(), column).map_or(end, |lifeline| lifeline.min(end));
        let room = end.saturating_sub(start + 1);
        let mut pieces = wrapped(words, room.max(1)).into_iter();
        let first = pieces.next().unwrap_or_default();
        // A blank separates the text from a lifeline, which would look like part of it.
        line.put(start, &cut(&format!("{first} "), room + 1), style);
        if self.layout.ids {
            line.put(self.gutter + GAP, self.columns[column].id(), Style::Thread(column));
        }
        let mut lines = vec![line];
        for piece in pieces {
            let mut more = self.lifelines(row);
            more.put(start, &cut(&format!("{piece} "), room + 1), style);
            lines.push(more);
        }
        lines
    }

    fn source(&self, line: &mut StyledLine, location: &Location, source: &str) {
        let room = self.options.width.saturating_sub(self.layout.location);
        line.put(self.layout.location, &cut_front(&location.text(), room.min(LOCATION)), Style::Dim);
        if self.layout.source > 0 {
            let room = self.options.width.saturating_sub(self.layout.source);
            line.put(self.layout.source, &cut(source, room), Style::Plain);
        }
    }

    /// Returns the thread that the text on a switch is about.
    fn subject(&self, from: usize, to: usize, reason: &SwitchReason) -> &str {
        match reason {
            SwitchReason::Preempts(_) => self.columns[to].id(),
            SwitchReason::Stopped(_) => self.columns[from].id(),
        }
    }

    /// Draws an arrow from column to column with the reason on it; without columns, a rule.
    fn switch(&self, line: &mut StyledLine, at: usize, from: usize, to: usize, reason: &SwitchReason) {
        let (words, dash, style) = match reason {
            SwitchReason::Preempts(stopped_thread) => {
                (format!("preempts {stopped_thread}"), "━", Style::Preemption)
            }
            SwitchReason::Stopped(reason) => (reason.clone(), "─", Style::Dim),
        };
        if self.layout.ids {
            let words = if words.is_empty() {
                format!("{} continues", self.columns[to].id())
            } else {
                format!("{} {words}", self.subject(from, to, reason))
            };
            let rule = format!("{dash}{dash} {words} {dash}{dash}");
            line.put(
                self.gutter + GAP,
                &cut(&rule, self.options.width.saturating_sub(self.gutter + GAP)),
                style,
            );
            return;
        }
        let (start, end) = (self.layout.columns[from], self.layout.columns[to]);
        let (left, right) = (start.min(end), start.max(end));
        let heads = if start < end { ("╰", "▶") } else { ("◀", "╯") };
        line.put(left, &dash.repeat(right - left), style);
        line.put(left, heads.0, style);
        line.put(right, heads.1, style);
        if words.is_empty() {
            return;
        }
        // The arrow may start at the other thread, so the text always names the one that it is about.
        let label = format!(" {} {words} ", self.subject(from, to, reason));
        if right - left < width(&label) + 4 {
            let end = self.next_lifeline(at, from.max(to)).unwrap_or(self.options.width);
            line.put(right + 1, &cut(&label, end.saturating_sub(right + 1)), style);
        } else if start < end {
            line.put(left + 3, &label, style);
        } else {
            line.put(right - 2 - width(&label), &label, style);
        }
    }
}

impl TableLayout {
    /// Returns the layout that shows most within this width.
    fn choose(columns: &[Column], rows: &[Row], start: usize, total: usize) -> Self {
        let location = rows
            .iter()
            .filter_map(|row| Some(width(&row.location()?.text()).min(LOCATION)))
            .max()
            .unwrap_or(0);
        let mut widest: Vec<usize> =
            columns.iter().map(|column| width(&column.title).max(width(&column.function))).collect();
        for (column, words) in rows.iter().filter_map(Row::cell) {
            widest[column] = widest[column].max(width(words));
        }
        for limit in WIDEST {
            let layout = Self::side_by_side(&widest, start, limit, location);
            if layout.source + SOURCE <= total {
                return layout;
            }
        }
        let narrow = Self::side_by_side(&widest, start, WIDEST[WIDEST.len() - 1], location);
        if narrow.location + location <= total {
            return Self { source: 0, ..narrow };
        }
        Self::with_ids(columns, &widest, start, total, location)
    }

    fn side_by_side(widest: &[usize], start: usize, limit: usize, location: usize) -> Self {
        let mut at = start;
        let mut columns = Vec::new();
        for (nth, &wide) in widest.iter().enumerate() {
            columns.push(at);
            // The last column has no empty one to its right to extend over.
            let limit = if nth + 1 == widest.len() { WIDEST[0].min(limit + 12) } else { limit };
            at += wide.clamp(6, limit) + GAP;
        }
        Self { columns, ids: false, location: at, source: at + location + GAP }
    }

    fn with_ids(columns: &[Column], widest: &[usize], start: usize, total: usize, location: usize) -> Self {
        let words = start + columns.iter().map(|column| width(column.id())).max().unwrap_or(0) + GAP;
        let room = total.saturating_sub(words + GAP + location);
        let widest = widest.iter().copied().max().unwrap_or(0).min(room).clamp(12, WIDEST[0]);
        let at = words + widest + GAP;
        let source = at + location + GAP;
        Self {
            columns: vec![words; columns.len()],
            ids: true,
            location: at,
            source: if source + SOURCE / 2 <= total { source } else { 0 },
        }
    }

    /// Returns the end of the nth column.
    fn end(&self, nth: usize) -> usize {
        self.columns.get(nth + 1).copied().unwrap_or(self.location)
    }
}
