//! `cargo xtask plots`: draws the plots of `docs/results.md` from the CSV files in `docs/results/data`.
//!
//! The output depends on the CSV files alone, so a test can compare it with the plots in the repository.

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 800;
const LEFT: i32 = 20;
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
// The palette of Okabe and Ito, which people with colour blindness can tell apart.
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
const RED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);

/// Draws all plots into `directory`, or into `docs/results/plots`.
pub(crate) fn draw_all(directory: Option<&str>) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
    let data = root.join("docs/results/data");
    let directory = directory.map_or_else(|| root.join("docs/results/plots"), PathBuf::from);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    search(&Csv::read(&data.join("search.csv"))?, &directory.join("search.svg"))?;
    simplify(&Csv::read(&data.join("simplify.csv"))?, &directory.join("simplify.svg"))?;
    static_time(&Csv::read(&data.join("static.csv"))?, &directory.join("static.svg"))?;
    long_traces(&Csv::read(&data.join("long.csv"))?, &directory.join("long.svg"))?;
    speed(&Csv::read(&data.join("speed.csv"))?, &directory.join("speed.svg"))
}

/// A CSV file without quoted cells.
struct Csv {
    columns: HashMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Csv {
    fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let header = lines.next().with_context(|| format!("{} is empty", path.display()))?;
        let columns = header.into_iter().enumerate().map(|(index, name)| (name, index)).collect();
        Ok(Self { columns, rows: lines.collect() })
    }

    fn text<'a>(&self, row: &'a [String], column: &str) -> Result<&'a str> {
        let index = self.columns.get(column).with_context(|| format!("no column {column}"))?;
        row.get(*index).map(String::as_str).with_context(|| format!("no cell {column} in {row:?}"))
    }

    /// The number in a cell; `None` if the cell is empty.
    fn number(&self, row: &[String], column: &str) -> Result<Option<f64>> {
        let text = self.text(row, column)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).with_context(|| format!("{text} in column {column} is not a number"))
    }

    fn required(&self, row: &[String], column: &str) -> Result<f64> {
        self.number(row, column)?.with_context(|| format!("the cell {column} is empty in {row:?}"))
    }
}

/// Schedules to the first failure, for the programs with a published figure.
fn search(csv: &Csv, path: &Path) -> Result<()> {
    let series = [
        ("portfolio", "unsnarl, default search", BLUE),
        ("published", "best published figure", RED),
        ("pct3", "PCT with depth 3 in unsnarl", ORANGE),
        ("pos", "partial order sampling in unsnarl", GREEN),
        ("random", "random search in unsnarl", GREY),
    ];
    let mut groups = Vec::new();
    for row in &csv.rows {
        let tool = csv.text(row, "published_tool")?;
        if tool.is_empty() {
            continue;
        }
        let mut bars = Vec::new();
        for (index, (column, _, _)) in series.iter().enumerate() {
            let value = csv.number(row, column)?;
            let note = match value {
                Some(value) if *column == "published" => format!("{value} ({tool})"),
                Some(value) => format!("{value:.1}"),
                None => "not found in 2,000 schedules".to_owned(),
            };
            bars.push(Bar { series: index, value, note });
        }
        groups.push(Group { label: csv.text(row, "program")?.to_owned(), bars });
    }
    let series = series.map(|(_, name, color)| (name, color));
    grouped_bars(
        path,
        "Schedules to the first failure",
        "mean number of schedules until the first failure (log scale); fewer is better",
        &series,
        &groups,
        (1.0, 2000.0),
        120,
    )
}

/// Runs per second against the peers.
fn speed(csv: &Csv, path: &Path) -> Result<()> {
    let series = [("unsnarl", BLUE), ("unsnarl without race detection", SKY), ("the tool at the left", RED)];
    let mut groups: Vec<Group> = Vec::new();
    for row in &csv.rows {
        let label = format!("{}: {}", csv.text(row, "peer")?, csv.text(row, "workload")?);
        let ours = csv.required(row, "unsnarl")?;
        let peer = csv.required(row, "peer_value")?;
        let bar = |series, value| Bar { series, value: Some(value), note: thousands(value) };
        match csv.text(row, "measure")? {
            "runs/s" => groups.push(Group { label, bars: vec![bar(0, ours), bar(2, peer)] }),
            "runs/s without race detection" => {
                let group = groups.last_mut().filter(|group| group.label == label);
                group.with_context(|| format!("no row before it for {label}"))?.bars.insert(1, bar(1, ours));
            }
            _ => {}
        }
    }
    grouped_bars(
        path,
        "Runs per second",
        "runs per second (log scale); more is better",
        &series,
        &groups,
        (1.0, 1_000_000.0),
        200,
    )
}

struct Group {
    label: String,
    bars: Vec<Bar>,
}

struct Bar {
    series: usize,
    /// `None`: there is no figure, only the note.
    value: Option<f64>,
    note: String,
}

/// Groups of horizontal bars on a logarithmic axis, each with its value beside it.
fn grouped_bars(
    path: &Path,
    title: &str,
    axis: &str,
    series: &[(&str, RGBColor)],
    groups: &[Group],
    range: (f64, f64),
    label_width: i32,
) -> Result<()> {
    const BAR: f64 = 16.0;
    const GAP: f64 = 12.0;
    let body: f64 = groups.iter().map(|group| group.bars.len() as f64 * BAR + GAP).sum();
    let head = 62 + legend_places(series).last().map_or(0, |(_, y)| *y as u32);
    let height = head + body as u32 + 63;
    let root = canvas(path, height, title)?;
    legend(&root, series, 46)?;
    let (plot, _) = root.margin(head, 0, 0, 30).split_vertically(height - head);
    // Pixels are the unit of the vertical axis: row positions are computed, not scaled.
    let mut chart = ChartBuilder::on(&plot)
        .set_label_area_size(LabelAreaPosition::Left, label_width)
        .set_label_area_size(LabelAreaPosition::Bottom, 50)
        .build_cartesian_2d((range.0..range.1).log_scale(), body..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(axis)
        .x_label_formatter(&|value| thousands(*value))
        .label_style(font(16))
        .axis_desc_style(font(17))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let (left, _) = plot.get_base_pixel();
    let mut top = GAP / 2.0;
    for group in groups {
        let middle = top + group.bars.len() as f64 * BAR / 2.0;
        let (_, y) = chart.backend_coord(&(range.0, middle));
        text(&root, &group.label, (left + label_width - 10, y), HPos::Right, 16)?;
        for bar in &group.bars {
            // Without a value, a stub shows which series the note is about.
            let end = bar.value.unwrap_or(range.0 * 1.04);
            let corners = [(range.0, top + 1.0), (end, top + BAR - 1.0)];
            chart.draw_series([Rectangle::new(corners, series[bar.series].1.filled())])?;
            let (x, y) = chart.backend_coord(&(end, top + BAR / 2.0));
            text(&root, &bar.note, (x + 5, y), HPos::Left, 15)?;
            top += BAR;
        }
        top += GAP;
    }
    root.present()?;
    Ok(())
}

/// Context switches and preemptions before and after simplification.
fn simplify(csv: &Csv, path: &Path) -> Result<()> {
    // Programs with fewer switches have little to simplify; the CSV file has them all.
    const LEAST: f64 = 6.0;
    const ROW: i32 = 19;
    let mut rows = Vec::new();
    for row in &csv.rows {
        let before = csv.required(row, "switches_before")?;
        let program = csv.text(row, "program")?;
        if before >= LEAST && program != "all" {
            rows.push((before, program, row));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let all = csv.rows.iter().find(|row| row[0] == "all").context("no row for all traces")?;
    rows.push((0.0, "mean of all traces", all));
    let height = rows.len() as i32 * ROW + 130;
    let root = canvas(path, height as u32, "Context switches and preemptions of failing runs")?;
    legend(&root, &[("as found by the search", RED), ("after simplification", BLUE)], 46)?;
    let label_width = 200;
    let panel_width = (WIDTH as i32 - label_width - 20) / 2;
    let (_, right) = root.split_horizontally(label_width);
    let (first, second) = right.split_horizontally(panel_width);
    let panels = [
        (first, "mean number of context switches per run", "switches_before", "switches_after"),
        (second, "mean number of preemptions per run", "preemptions_before", "preemptions_after"),
    ];
    for (index, (panel, axis, before, after)) in panels.iter().enumerate() {
        let mut chart = ChartBuilder::on(panel)
            .margin_top(62)
            .margin_right(20)
            .set_label_area_size(LabelAreaPosition::Bottom, 50)
            .build_cartesian_2d(0.0..115.0, rows.len() as f64..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(6)
            .x_desc(*axis)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .label_style(font(16))
            .axis_desc_style(font(17))
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (position, (_, program, row)) in rows.iter().enumerate() {
            let y = position as f64 + 0.5;
            let (before, after) = (csv.required(row, before)?, csv.required(row, after)?);
            chart.draw_series([PathElement::new([(after, y), (before, y)], GREY.stroke_width(2))])?;
            chart.draw_series([Circle::new((before, y), 5, RED.filled())])?;
            chart.draw_series([Circle::new((after, y), 5, BLUE.filled())])?;
            let (x, pixel) = chart.backend_coord(&(before.max(after), y));
            text(&root, &format!("{before:.1} → {after:.1}"), (x + 10, pixel), HPos::Left, 14)?;
            if index == 0 {
                text(&root, program, (label_width - 10, pixel), HPos::Right, 15)?;
            }
        }
    }
    root.present()?;
    Ok(())
}

/// Time of static simplification against the length of the trace.
fn static_time(csv: &Csv, path: &Path) -> Result<()> {
    let lines = [
        ("ours", "synthetic", "unsnarl's algorithm, in memory", BLUE),
        ("arbitrary", "synthetic", "the same, merging in arbitrary order", ORANGE),
        ("command", "synthetic", "unsnarl simplify --static, file to file", GREEN),
        ("paper", "synthetic", "SimTrace, as the paper prints it", RED),
    ];
    let height = 500;
    let root = canvas(path, height, "Static simplification: time against trace length")?;
    let (plot, _) = root.margin(50, 0, 10, 30).split_vertically(height - 50);
    let mut chart = ChartBuilder::on(&plot)
        .set_label_area_size(LabelAreaPosition::Left, 85)
        .set_label_area_size(LabelAreaPosition::Bottom, 50)
        .build_cartesian_2d((8e3..1.5e8).log_scale(), (5e-4..300.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("events in the trace (log scale)")
        .y_desc("seconds (log scale)")
        .x_label_formatter(&|value| thousands(*value))
        .y_label_formatter(&|value| format!("{value}"))
        .label_style(font(16))
        .axis_desc_style(font(17))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let points = |algorithm: &str, trace: &str| -> Result<Vec<(f64, f64)>> {
        let mut points = Vec::new();
        for row in &csv.rows {
            if csv.text(row, "algorithm")? == algorithm && csv.text(row, "trace")? == trace {
                points.push((csv.required(row, "events")?, csv.required(row, "seconds")?));
            }
        }
        Ok(points)
    };
    for (algorithm, trace, name, color) in lines {
        let line = points(algorithm, trace)?;
        chart
            .draw_series(LineSeries::new(line.clone(), color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled()));
        chart.draw_series(line.into_iter().map(|point| Circle::new(point, 5, color.filled())))?;
        let recorded = points(algorithm, "recorded")?;
        chart.draw_series(recorded.into_iter().map(|point| Circle::new(point, 6, color.stroke_width(2))))?;
    }
    chart
        .draw_series(std::iter::empty::<Circle<(f64, f64), i32>>())?
        .label("hollow: recorded, filled: generated traces")
        .legend(|(x, y)| Circle::new((x + 7, y), 5, INK.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(GRID)
        .label_font(font(17))
        .margin(10)
        .draw()?;
    root.present()?;
    Ok(())
}

/// Context switches left of long traces against time: a panel for each trace.
fn long_traces(csv: &Csv, path: &Path) -> Result<()> {
    const COLUMNS: usize = 2;
    const PANEL: u32 = 260;
    let ways = [
        ("default", "default", BLUE),
        ("quick", "--effort 0", GREEN),
        ("dynamic", "--dynamic (Tinertia)", RED),
        ("hunt", "hunt", ORANGE),
    ];
    let mut traces: Vec<&str> = Vec::new();
    for row in &csv.rows {
        let trace = csv.text(row, "trace")?;
        if traces.last() != Some(&trace) {
            traces.push(trace);
        }
    }
    let rows = traces.len().div_ceil(COLUMNS);
    let root = canvas(path, 70 + PANEL * rows as u32, "Long traces: context switches left against time")?;
    legend(&root, &ways.map(|(_, name, color)| (name, color)), 48)?;
    let panels = root.margin(66, 4, 0, 0).split_evenly((rows, COLUMNS));
    for (panel, trace) in panels.iter().zip(traces) {
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); ways.len()];
        for row in &csv.rows {
            let way = csv.text(row, "way")?;
            if let Some(index) = ways
                .iter()
                .position(|(name, ..)| *name == way)
                .filter(|_| csv.text(row, "trace").is_ok_and(|name| name == trace))
            {
                let (seconds, switches) = (csv.required(row, "seconds")?, csv.required(row, "switches")?);
                curves[index].push((seconds.max(0.01), switches.max(1.0)));
            }
        }
        let most = |of: fn(&(f64, f64)) -> f64| curves.iter().flatten().map(of).fold(1.0, f64::max);
        let (seconds, switches) = (most(|point| point.0), most(|point| point.1));
        let mut chart = ChartBuilder::on(panel)
            .caption(trace, font(17))
            .margin_right(16)
            .set_label_area_size(LabelAreaPosition::Left, 64)
            .set_label_area_size(LabelAreaPosition::Bottom, 36)
            .build_cartesian_2d((0.01..1.2 * seconds).log_scale(), (1.0..1.5 * switches).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("seconds (log scale)")
            .x_labels(5)
            .y_labels(5)
            .x_label_formatter(&|value| format!("{value}"))
            .y_label_formatter(&|value| thousands(*value))
            .label_style(font(13))
            .axis_desc_style(font(14))
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        // The default is drawn last, so that it is never hidden.
        for (curve, (_, _, color)) in curves.iter().zip(ways).rev() {
            let mut steps: Vec<(f64, f64)> = Vec::new();
            for &(seconds, switches) in curve {
                steps.extend(steps.last().map(|&(_, before)| (seconds, before)));
                steps.push((seconds, switches));
            }
            chart.draw_series(LineSeries::new(steps, color.stroke_width(2)))?;
        }
    }
    root.present()?;
    Ok(())
}

/// A white drawing area with a title.
fn canvas<'a>(path: &'a Path, height: u32, title: &str) -> Result<Area<'a>> {
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    text(&root, title, (LEFT, 22), HPos::Left, 22)?;
    Ok(root)
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), horizontal: HPos, size: u32) -> Result<()> {
    let style = font(size).pos(Pos::new(horizontal, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

/// Rows of coloured squares with names, the first of them at `top`.
fn legend(area: &Area<'_>, series: &[(&str, RGBColor)], top: i32) -> Result<()> {
    for ((name, color), (x, y)) in series.iter().zip(legend_places(series)) {
        let y = top + y;
        area.draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], color.filled()))?;
        text(area, name, (x + 18, y), HPos::Left, 17)?;
    }
    Ok(())
}

/// The position of each square of a legend, relative to its first row.
fn legend_places(series: &[(&str, RGBColor)]) -> Vec<(i32, i32)> {
    const ROW: i32 = 24;
    let (mut x, mut y) = (LEFT, 0);
    let place = |(name, _): &(&str, RGBColor)| {
        // The SVG backend cannot measure text: about 7.5 pixels per character at this size.
        let width = 18 + (name.chars().count() as f64 * 7.5) as i32 + 20;
        if x > LEFT && x + width > WIDTH as i32 {
            (x, y) = (LEFT, y + ROW);
        }
        x += width;
        (x - width, y)
    };
    series.iter().map(place).collect()
}

/// A number with separators: `1,234`; powers of ten from a million on as `10 M`.
fn thousands(value: f64) -> String {
    if value >= 1e6 {
        return format!("{} M", value / 1e6);
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
