//! A recording of `punctual top` for the documentation: an animated SVG.

use std::{fmt::Write as _, fs, path::Path, thread, time::Duration};

use vt100::{Cell, Color, Screen};

use crate::{
    shell::{Server, Shell},
    top::Terminal,
};

const FRAMES: usize = 24;
const PERIOD: Duration = Duration::from_millis(500);
/// The size of a character, in pixels.
const CHARACTER: (f32, f32) = (8.4, 18.0);
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d5d9e0";
/// The first colours of a terminal: black, red, green, yellow, blue, magenta, cyan, white, and their bright variants.
const COLOURS: [&str; 16] = [
    "#16181d", "#e06c75", "#7fb069", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5d9e0", "#7f848e", "#ff7b86",
    "#98c379", "#f0d08a", "#7ec1ff", "#d79bf0", "#6fd3df", "#ffffff",
];

#[test]
#[ignore = "takes a picture for the documentation: cargo xtask pictures"]
fn top_is_recorded_as_a_picture() {
    let shell = Shell::new();
    let server = Server::start(&shell, &["up", "--demo"]);
    server.url(&shell);
    let top = Terminal::start(&shell, &["top", "--every", "500ms"], &[]);
    top.shows("● live");
    let next = |_| {
        thread::sleep(PERIOD);
        frame(top.screen.lock().unwrap().screen())
    };
    let frames: Vec<String> = (0..FRAMES).map(next).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("top.svg"), animation(&frames)).unwrap();
}

/// Shows one frame after the other, repeatedly. Each is visible during its share of the time.
fn animation(frames: &[String]) -> String {
    let (width, height) = (100.0 * CHARACTER.0 + 20.0, 24.0 * CHARACTER.1 + 20.0);
    let (period, share) = (PERIOD.as_secs_f32(), 100.0 / frames.len() as f32);
    let total = period * frames.len() as f32;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" \
         font-size=\"14\"><title>punctual top on the demo</title><style>g{{opacity:0;animation:f {total}s \
         step-end infinite}}@keyframes f{{0%{{opacity:1}}{share}%{{opacity:0}}}}text{{white-space:pre}}</style>\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (index, frame) in frames.iter().enumerate() {
        let _ = writeln!(svg, "<g style=\"animation-delay:{}s\">{frame}</g>", period * index as f32);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The rows of a screen as texts.
fn frame(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let mut frame = String::new();
    for row in 0..u16::from(rows) {
        let cells: Vec<&Cell> = (0..u16::from(columns)).filter_map(|column| screen.cell(row, column)).collect();
        let mut start = 0;
        for cells in cells.chunk_by(|left, right| style(left) == style(right)) {
            let text: String =
                cells.iter().map(|cell| if cell.has_contents() { cell.contents() } else { " " }).collect();
            if !text.trim().is_empty() {
                let (x, y) = (10.0 + start as f32 * CHARACTER.0, 10.0 + f32::from(row + 1) * CHARACTER.1 - 4.0);
                let text = text.replace('&', "&amp;").replace('<', "&lt;");
                let _ = write!(frame, "<text x=\"{x}\" y=\"{y}\" {}>{text}</text>", style(cells[0]));
            }
            start += cells.len();
        }
    }
    frame
}

/// The attributes of a text in the style of a cell.
fn style(cell: &Cell) -> String {
    let colour = if cell.inverse() { cell.bgcolor() } else { cell.fgcolor() };
    let colour = match colour {
        Color::Default => FOREGROUND.to_owned(),
        Color::Idx(index) => COLOURS.get(usize::from(index)).copied().unwrap_or(FOREGROUND).to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    };
    format!("fill=\"{colour}\"{}", if cell.bold() { " font-weight=\"bold\"" } else { "" })
}
