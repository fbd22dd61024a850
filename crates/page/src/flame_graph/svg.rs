//! Draws a flame graph: a panel for each state, its frames from the bottom up. The style sheet and the script
//! are files next to this one.

use std::io::{self, Write};

use model::{CpuState, Nanos};

use super::Header;
use super::colour::{Kind, plain_name};
use super::fold::{FoldedStacks, Total, state_name};
use super::layout::{Frame, Layout, lay_out};
use super::xml;
use report::quantity::format_count;

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");

/// Width of a panel's frames, in pixels; the picture has a margin on either side.
const WIDTH: f64 = 1180.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 16.0;
/// Width of a character of the style sheet's fixed font, in pixels.
const CHAR_WIDTH: f64 = 6.63;
const LINE: f64 = 17.0;

/// Writes the picture: a panel for each of these states.
///
/// # Errors
/// Those of `out`.
pub fn write_svg(
    out: &mut dyn Write,
    fold: &FoldedStacks,
    states: &[CpuState],
    about: &Header,
) -> io::Result<()> {
    let panels: Vec<Panel<'_>> = states.iter().map(|&state| Panel::of(fold, state)).collect();
    let head = 62.0 + LINE * (about.notes.len() + about.missing.len()) as f64;
    let height = head + panels.iter().map(Panel::height).sum::<f64>() + 8.0;
    writeln!(
        out,
        r##"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{height:.0}" viewBox="0 0 {0} {height:.0}" data-width="{WIDTH}" data-char-width="{CHAR_WIDTH}">
<title>{1}</title>
<style>
{STYLE}</style>
<rect width="100%" height="100%" fill="#fdfcfa"/>"##,
        WIDTH + 2.0 * MARGIN,
        xml::text(&about.title),
    )?;
    write_head(out, about)?;
    let mut top = head;
    for panel in &panels {
        panel.write(out, top)?;
        top += panel.height();
    }
    writeln!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
}

fn write_head(out: &mut dyn Write, about: &Header) -> io::Result<()> {
    writeln!(out, r#"<text class="title" x="{MARGIN}" y="26">{}</text>"#, xml::text(&about.title))?;
    let notes = about.notes.iter().map(|note| ("note", note));
    let missing = about.missing.iter().map(|note| ("note missing", note));
    let mut y = 46.0;
    for (class, note) in notes.chain(missing) {
        writeln!(out, r#"<text class="{class}" x="{MARGIN}" y="{y}">{}</text>"#, xml::text(note))?;
        y += LINE;
    }
    let right = WIDTH + MARGIN;
    writeln!(
        out,
        r#"<g id="controls" class="hidden" text-anchor="end">
<text class="button" id="search" x="{right}" y="26">Search (Ctrl-F)</text>
<text class="button hidden" id="clear" x="{}" y="26">Clear search</text>
<text class="button hidden" id="reset" x="{}" y="26">Zoom out (Esc)</text>
<text class="note" id="matched" x="{right}" y="{y}"></text>
</g>"#,
        right - 110.0,
        right - 205.0,
    )
}

/// One state's part of the picture.
struct Panel<'a> {
    state: CpuState,
    layout: Layout<'a>,
}

/// Height from a panel's top to its highest row of frames.
const HEADING: f64 = 42.0;

impl<'a> Panel<'a> {
    fn of(fold: &'a FoldedStacks, state: CpuState) -> Self {
        Self { state, layout: lay_out(state_name(state).0, fold.of(state)) }
    }

    fn height(&self) -> f64 {
        HEADING + ROW * self.layout.rows as f64 + 18.0
    }

    fn write(&self, out: &mut dyn Write, top: f64) -> io::Result<()> {
        let (name, _) = state_name(self.state);
        let total = self.layout.total;
        writeln!(
            out,
            r#"<g class="panel" data-name="{name}" data-total="{}" transform="translate(0 {top:.0})">
<text class="heading" x="{MARGIN}" y="16">{}</text>"#,
            total.time.0,
            xml::text(&self.heading()),
        )?;
        self.write_legend(out)?;
        let left_out = match self.layout.left_out {
            0 => String::new(),
            some => format!("; {} frames too narrow to be seen are left out", format_count(some as u64)),
        };
        writeln!(
            out,
            r#"<text class="detail" x="{MARGIN}" y="34">Point at a frame to read it, click to zoom{left_out}</text>"#
        )?;
        for frame in &self.layout.frames {
            self.write_frame(out, frame)?;
        }
        writeln!(out, "</g>")
    }

    fn heading(&self) -> String {
        let Total { time, count } = self.layout.total;
        let (state, of) = state_name(self.state);
        let state = state.replacen('o', "O", 1);
        match count {
            0 => format!("{state}: nothing seen"),
            count => format!("{state}: {time} in {} {of}", format_count(count)),
        }
    }

    fn write_legend(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut right = WIDTH + MARGIN;
        for kind in Kind::CODE.iter().rev() {
            let name = kind.as_str();
            let colour = kind.colour(self.state, name);
            right -= 7.5 * name.len() as f64 + 26.0;
            writeln!(
                out,
                r#"<rect x="{right:.1}" y="6" width="12" height="12" rx="2" fill="{colour}"/><text class="note" x="{:.1}" y="16">{name}</text>"#,
                right + 16.0
            )?;
        }
        Ok(())
    }

    fn write_frame(&self, out: &mut dyn Write, frame: &Frame<'_>) -> io::Result<()> {
        let all = self.layout.total.time.0.max(1) as f64;
        let kind = Kind::of(frame.name, frame.depth);
        let name = plain_name(frame.name);
        let x = MARGIN + WIDTH * frame.start_ns as f64 / all;
        let width = WIDTH * frame.total.time.0 as f64 / all;
        let y = HEADING + ROW * (self.layout.rows - 1 - frame.depth) as f64;
        let letter = match kind {
            Kind::Java => r#" data-k="j""#,
            _ => "",
        };
        write!(
            out,
            r#"<g class="frame" data-x="{}" data-w="{}" data-d="{}"{letter}><title>{}</title>"#,
            frame.start_ns,
            frame.total.time.0,
            frame.depth,
            xml::text_lines(&[name, &self.tooltip(frame, kind)]),
        )?;
        write!(
            out,
            r#"<rect x="{x:.2}" y="{y}" width="{:.2}" height="{}" rx="1" fill="{}"/>"#,
            (width - 0.5).max(0.3),
            ROW - 1.0,
            kind.colour(self.state, frame.name),
        )?;
        let text = fit(name, kind, width);
        writeln!(out, r#"<text x="{:.2}" y="{}">{}</text></g>"#, x + 3.0, y + 11.5, xml::text(&text))
    }

    fn tooltip(&self, frame: &Frame<'_>, kind: Kind) -> String {
        let Total { time, count } = frame.total;
        let share = 100.0 * time.0 as f64 / self.layout.total.time.0.max(1) as f64;
        let (state, of) = state_name(self.state);
        let mean = match self.state {
            CpuState::Off if count > 0 => {
                format!(", {} each", Nanos(time.0 / i64::try_from(count).unwrap_or(1)))
            }
            _ => String::new(),
        };
        format!("{}: {time}, {share:.2} % of {state}, {} {of}{mean}", kind.as_str(), format_count(count))
    }
}

/// The part of a name that fits a frame. Prefers the end of a Java method's name. Same as `fit` in flame.js.
fn fit(name: &str, kind: Kind, pixels: f64) -> String {
    let room = ((pixels - 6.0) / CHAR_WIDTH).floor().max(0.0) as usize;
    let fits = |text: &str| text.chars().count() <= room;
    if room < 3 {
        return String::new();
    }
    if fits(name) {
        return name.to_owned();
    }
    let mut tails = name.match_indices('.').filter_map(|(at, _)| name.get(at + 1..));
    if let Some(tail) = tails.find(|tail| kind == Kind::Java && fits(tail)) {
        return tail.to_owned();
    }
    name.chars().take(room - 2).chain("..".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Kind, fit};

    #[test]
    fn names_are_shortened_to_fit_their_frame() {
        let pixels = |chars: usize| 6.1 + super::CHAR_WIDTH * chars as f64;
        assert_eq!(fit("ext4_dirty_inode", Kind::Kernel, pixels(16)), "ext4_dirty_inode");
        assert_eq!(fit("ext4_dirty_inode", Kind::Kernel, pixels(8)), "ext4_d..");
        assert_eq!(fit("ext4_dirty_inode", Kind::Kernel, pixels(2)), "");
        assert_eq!(fit("java.util.ArrayList.add", Kind::Java, pixels(14)), "ArrayList.add");
        assert_eq!(fit("java.util.ArrayList.add", Kind::Java, pixels(5)), "add");
        assert_eq!(fit("žluťoučký", Kind::Native, pixels(5)), "žlu..");
        assert_eq!(fit("a", Kind::Native, -3.0), "");
    }
}
