//! Live view on a terminal: a list of connections, and one of them with a moving plot of its model.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bbrlab_live::watch::ConnectionState;
use bbrlab_stats::number::{ms, percent, rate};
use bbrlab_stats::plural::counted;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};

use super::{COLUMNS, Sample, Sort, Source, row};
use crate::grid::Align;
use crate::{Error, Verdict, interrupt};
use bbrlab_live::clock::Stopwatch;

/// Samples in a plot. Ours: two minutes at a sample a second.
const HISTORY: usize = 120;
/// Colours of the lines, distinct in hue; the title is the legend.
const LINES: [Color; 3] = [Color::Cyan, Color::Yellow, Color::Magenta];

/// Space between columns.
const SPACING: u16 = 2;
/// Columns that a narrow terminal omits, in this order.
const LEAVE: [&str; 8] = ["pacing", "delivery", "in flight", "min", "bw", "cwnd", "state", "local port"];

/// True while the view occupies the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Restores the terminal.
fn leave() {
    if SHOWN.swap(false, Ordering::SeqCst) {
        ratatui::restore();
    }
}

/// One sample of the plotted connection.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    goodput: f64,
    bw: Option<f64>,
    pacing: Option<f64>,
    rtt: f64,
    min_rtt: Option<f64>,
    cwnd: f64,
    in_flight: f64,
}

impl Point {
    fn of(one: &ConnectionState) -> Self {
        let model = one.model.as_ref();
        Self {
            goodput: one.goodput_bps.unwrap_or(0.0),
            bw: model.map(|model| model.bw_bps as f64),
            pacing: one.pacing_bps.map(|bps| bps as f64),
            rtt: one.rtt_ms,
            min_rtt: model.map(|model| model.min_rtt_ms).or(one.min_rtt_ms),
            cwnd: f64::from(one.cwnd),
            in_flight: f64::from(one.in_flight),
        }
    }
}

/// A connection shown in detail.
#[derive(Debug)]
struct Detail {
    cookie: u64,
    last: ConnectionState,
    is_open: bool,
    history: VecDeque<Point>,
}

/// State of the screen.
struct View {
    seen: Vec<ConnectionState>,
    note: Option<String>,
    sort: Sort,
    selected: TableState,
    /// Connection under the cursor, which follows it when the order changes.
    cursor: Option<u64>,
    detail: Option<Detail>,
    is_paused: bool,
}

impl View {
    fn new(sort: Sort) -> Self {
        let selected = TableState::default().with_selected(0);
        Self { seen: Vec::new(), note: None, sort, selected, cursor: None, detail: None, is_paused: false }
    }

    fn take(&mut self, sample: Sample) {
        (self.seen, self.note) = (sample.seen, sample.note);
        if let Some(detail) = &mut self.detail {
            match self.seen.iter().find(|one| one.cookie == detail.cookie) {
                Some(one) => {
                    detail.last = one.clone();
                    if detail.history.len() == HISTORY {
                        detail.history.pop_front();
                    }
                    detail.history.push_back(Point::of(one));
                }
                None => detail.is_open = false,
            }
        }
        self.order();
    }

    fn order(&mut self) {
        self.sort.apply(&mut self.seen);
        let place = self.cursor.and_then(|cookie| self.seen.iter().position(|one| one.cookie == cookie));
        let last = self.seen.len().saturating_sub(1);
        self.selected.select(Some(place.unwrap_or_else(|| self.selected.selected().unwrap_or(0).min(last))));
    }

    fn step(&mut self, by: isize) {
        let last = self.seen.len().saturating_sub(1);
        let at = self.selected.selected().unwrap_or(0).saturating_add_signed(by).min(last);
        self.selected.select(Some(at));
        self.cursor = self.seen.get(at).map(|one| one.cookie);
    }

    /// Handles a key; returns true if it ends the view.
    fn on_key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if self.detail.is_some() => self.detail = None,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-20),
            KeyCode::PageDown => self.step(20),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.order();
            }
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Enter | KeyCode::Right => {
                self.detail = self.selected.selected().and_then(|at| self.seen.get(at)).map(|one| Detail {
                    cookie: one.cookie,
                    last: one.clone(),
                    is_open: true,
                    history: VecDeque::from([Point::of(one)]),
                });
            }
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
        let total = self.seen.iter().filter_map(|one| one.goodput_bps).fold(0.0, |sum, bps| sum + bps);
        let mut words = format!(
            " {}, {} acknowledged, by {}",
            counted(self.seen.len(), "connection"),
            rate(total),
            self.sort.name()
        );
        if self.is_paused {
            words += ", paused";
        }
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let mut line = vec![Span::styled(words, bold)];
        if let Some(note) = &self.note {
            line.push(Span::raw(format!("   {note}")));
        }
        frame.render_widget(Paragraph::new(Line::from(line)), head);
        let keys = if let Some(detail) = &self.detail {
            draw_detail(frame, body, detail);
            " Esc back   p pause   q quit"
        } else {
            self.draw_list(frame, body);
            " ↑↓ choose   Enter one connection   s sort   p pause   q quit"
        };
        frame.render_widget(Paragraph::new(keys).style(Style::default().add_modifier(Modifier::DIM)), foot);
    }

    fn draw_list(&mut self, frame: &mut Frame<'_>, area: Rect) {
        // Cells are created only for visible rows: most of ten thousand connections are off the screen.
        let rows = usize::from(area.height.saturating_sub(1)).max(1);
        let at = self.selected.selected().unwrap_or(0);
        let first = at.saturating_sub(rows / 2).min(self.seen.len().saturating_sub(rows));
        let shown: Vec<Vec<String>> = self.seen.iter().skip(first).take(rows).map(row).collect();
        let width = |column: usize| {
            let head = COLUMNS[column].0.chars().count();
            shown.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0).max(head)
        };
        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        let columns = fitting(&widths, area.width.into());
        let line = |cells: Vec<String>| {
            let padded = columns.iter().map(|&column| {
                let (cell, width) = (&cells[column], widths[column]);
                match COLUMNS[column].1 {
                    Align::Right => format!("{cell:>width$}"),
                    Align::Left | Align::Text => format!("{cell:<width$}"),
                }
            });
            Row::new(padded.collect::<Vec<_>>())
        };
        let head = line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect());
        let table = Table::new(
            shown.iter().cloned().map(line),
            columns.iter().map(|column| Constraint::Length(u16::try_from(widths[*column]).unwrap_or(u16::MAX))),
        )
        .column_spacing(SPACING)
        .header(head.style(Style::default().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::default().add_modifier(Modifier::REVERSED));
        let mut state = TableState::default().with_selected(at.saturating_sub(first));
        frame.render_stateful_widget(table, area, &mut state);
    }
}

/// The columns that fit on a terminal.
fn fitting(widths: &[usize], room: usize) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..widths.len()).collect();
    for name in LEAVE {
        let needed: usize = columns.iter().map(|column| widths[*column] + usize::from(SPACING)).sum();
        if needed <= room + usize::from(SPACING) {
            break;
        }
        columns.retain(|column| COLUMNS[*column].0 != name);
    }
    columns
}

fn draw_detail(frame: &mut Frame<'_>, area: Rect, detail: &Detail) {
    let text = lines(detail);
    let [top, rates, rtts, windows] = Layout::vertical([
        Constraint::Length(u16::try_from(text.len()).unwrap_or(6)),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(text), top);
    let series = |value: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        let from = HISTORY - detail.history.len();
        let points = detail.history.iter().enumerate();
        points.filter_map(|(at, point)| Some(((from + at) as f64, value(point)?))).collect()
    };
    let draw =
        |frame: &mut Frame<'_>, area, title: &str, all: [(&str, Vec<(f64, f64)>); 3], show: fn(f64) -> String| {
            let highest = all.iter().flat_map(|(_, points)| points).map(|(_, value)| *value).fold(0.0, f64::max);
            let top = if highest > 0.0 { highest * 1.1 } else { 1.0 };
            // The title is the legend: in a terminal of 24 lines a chart has no space for another.
            let named = all.iter().zip(LINES).filter(|((name, _), _)| !name.is_empty());
            let names = named.map(|((name, _), colour)| Span::styled(format!("{name} "), Style::default().fg(colour)));
            let heading: Vec<Span<'_>> = std::iter::once(Span::raw(format!("{title}: "))).chain(names).collect();
            let sets = all.iter().zip(LINES).filter(|((name, _), _)| !name.is_empty());
            let sets = sets.map(|((name, points), colour)| {
                let set =
                    Dataset::default().name((*name).to_owned()).marker(Marker::Braille).graph_type(GraphType::Line);
                set.style(Style::default().fg(colour)).data(points)
            });
            let chart = Chart::new(sets.collect())
                .block(Block::bordered().title(Line::from(heading)))
                .x_axis(Axis::default().bounds([0.0, (HISTORY - 1) as f64]))
                .y_axis(Axis::default().bounds([0.0, top]).labels(["0".to_owned(), show(top)]))
                .legend_position(None);
            frame.render_widget(chart, area);
        };
    let rates_of = [
        ("goodput", series(|point| Some(point.goodput))),
        ("bw", series(|point| point.bw)),
        ("pacing", series(|point| point.pacing)),
    ];
    draw(frame, rates, " rate", rates_of, rate);
    let rtts_of =
        [("RTT", series(|point| Some(point.rtt))), ("min RTT", series(|point| point.min_rtt)), ("", Vec::new())];
    draw(frame, rtts, " RTT, ms", rtts_of, ms);
    let packets = |value: f64| format!("{value:.0}");
    let windows_of = [
        ("cwnd", series(|point| Some(point.cwnd))),
        ("in flight", series(|point| Some(point.in_flight))),
        ("", Vec::new()),
    ];
    draw(frame, windows, " packets", windows_of, packets);
}

/// Describes the connection in text.
fn lines(detail: &Detail) -> Vec<Line<'static>> {
    let one = &detail.last;
    let dash = || "–".to_owned();
    let closed = if detail.is_open { "" } else { "   closed" };
    let mut text = vec![
        Line::styled(format!(" {} → {}{closed}", one.local, one.remote), Style::default().add_modifier(Modifier::BOLD)),
        Line::raw(format!(
            " {} in {}   goodput {}   RTT {} ms, minimum {}",
            one.cc,
            one.state.unwrap_or("an unknown state"),
            one.goodput_bps.map_or_else(dash, rate),
            ms(one.rtt_ms),
            one.min_rtt_ms.map_or_else(dash, ms),
        )),
        Line::raw(format!(" cwnd {} packets of {} bytes, {} in flight", one.cwnd, one.mss, one.in_flight)),
        Line::raw(format!(
            " sent {} kB, {} kB of them retransmissions; just now {}",
            one.sent_bytes / 1000,
            one.retransmitted_bytes / 1000,
            one.retransmit_ratio.map_or_else(dash, percent),
        )),
    ];
    if let Some(model) = &one.model {
        let bytes = |bytes: u64| format!("{} packets", bytes / u64::from(one.mss.max(1)));
        text.push(Line::raw(format!(
            " model: bw {}   min RTT {} ms   pacing gain {:.2}   cwnd gain {:.2}",
            rate(model.bw_bps as f64),
            ms(model.min_rtt_ms),
            model.pacing_gain,
            model.cwnd_gain,
        )));
        text.push(Line::raw(format!(
            " bounds: bw {}, in flight {} short, {} long",
            model.bw_shortterm_bps.map_or_else(dash, |bps| rate(bps as f64)),
            model.inflight_shortterm_bytes.map_or_else(dash, bytes),
            model.inflight_longterm_bytes.map_or_else(dash, bytes),
        )));
    }
    text
}

/// Shows the connections until the user quits.
pub fn show(source: &mut Source, interval: Duration, sort: Sort) -> Result<Verdict, Error> {
    let first = source.sample()?; // errors are shown on a plain terminal
    let mut terminal = ratatui::try_init().map_err(Error::io("the terminal"))?;
    SHOWN.store(true, Ordering::SeqCst);
    interrupt::on_signal(|| {
        leave();
        false
    });
    let mut view = View::new(sort);
    view.take(first);
    let ended = run(&mut terminal, &mut view, source, interval);
    leave();
    ended.map(|()| Verdict::Holds)
}

fn run(terminal: &mut DefaultTerminal, view: &mut View, source: &mut Source, interval: Duration) -> Result<(), Error> {
    let fault = Error::io("the terminal");
    let mut since = Stopwatch::start();
    loop {
        terminal.draw(|frame| view.draw(frame)).map_err(&fault)?;
        let left = interval.saturating_sub(Duration::from_secs_f64(since.seconds()));
        if event::poll(left).map_err(&fault)? {
            if let Event::Key(key) = event::read().map_err(&fault)?
                && key.kind == KeyEventKind::Press
                && view.on_key(key)
            {
                return Ok(());
            }
            continue;
        }
        since = Stopwatch::start();
        if !view.is_paused {
            view.take(source.sample()?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(view: &mut View) -> String {
        screen_of(view, 170)
    }

    fn screen_of(view: &mut View, columns: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, 40)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let width = usize::from(buffer.area.width);
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(width).map(|line| line.concat().trim_end().to_owned() + "\n").collect()
    }

    fn sample(goodputs: &[(u64, f64)]) -> Sample {
        let one = |(cookie, goodput): &(u64, f64)| {
            let mut one = seen(&format!("192.0.2.{cookie}:50000"), *goodput, 50.0);
            one.cookie = *cookie;
            one
        };
        Sample { seen: goodputs.iter().map(one).collect(), note: None }
    }

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.on_key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn the_cursor_stays_on_its_connection_while_the_order_changes() {
        let mut view = View::new(Sort::Goodput);
        view.take(sample(&[(1, 9e6), (2, 5e6), (3, 1e6)]));
        press(&mut view, KeyCode::Down);
        view.take(sample(&[(1, 1e6), (2, 9e6), (3, 5e6)]));
        assert_eq!(view.selected.selected(), Some(0));
        // A closed connection leaves the cursor in place.
        view.take(sample(&[(1, 1e6)]));
        assert_eq!(view.selected.selected(), Some(0));
        view.take(sample(&[]));
        press(&mut view, KeyCode::End);
        assert!(screen(&mut view).contains("0 connections"));
    }

    #[test]
    fn one_connection_is_drawn_with_its_model() {
        let mut view = View::new(Sort::Goodput);
        view.take(sample(&[(1, 9e6), (2, 5e6)]));
        assert!(screen(&mut view).contains("192.0.2.2:50000"));
        press(&mut view, KeyCode::Enter);
        for step in 0..2 * HISTORY {
            view.take(sample(&[(1, 1e6 * step as f64)]));
        }
        let drawn = screen(&mut view);
        for word in ["10.0.0.1:443 → 192.0.2.1:50000", "model: bw 19.00 Mbit/s", "RTT, ms", "in flight", "goodput"] {
            assert!(drawn.contains(word), "{word}\n{drawn}");
        }
        assert_eq!(view.detail.as_ref().unwrap().history.len(), HISTORY);
        view.take(sample(&[]));
        assert!(screen(&mut view).contains("closed"));
        assert!(!press(&mut view, KeyCode::Esc), "back to the list first");
        assert!(press(&mut view, KeyCode::Char('q')));
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_columns_whole() {
        let mut view = View::new(Sort::Goodput);
        view.take(sample(&[(1, 9e6), (2, 5e6)]));
        let wide = screen_of(&mut view, 170);
        assert!(COLUMNS.iter().all(|(name, _)| wide.contains(name)), "{wide}");
        let narrow = screen_of(&mut view, 80);
        for word in ["192.0.2.1:50000", "bbr3_linux", "9.00 Mbit/s", "1.00 %", "RTT ms"] {
            assert!(narrow.contains(word), "{word}\n{narrow}");
        }
        assert!(!narrow.contains("pacing") && !narrow.contains("delivery"), "{narrow}");
        screen_of(&mut view, 1);
    }

    #[test]
    fn a_long_list_moves_with_the_cursor() {
        let mut view = View::new(Sort::Remote);
        view.take(sample(&(0..250).map(|n| (n, 1e6)).collect::<Vec<_>>()));
        for _ in 0..30 {
            press(&mut view, KeyCode::PageDown);
        }
        assert!(screen(&mut view).contains("192.0.2.249:50000"));
    }
}
