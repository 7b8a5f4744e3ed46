//! The graph as SVG.

use unicode_width::UnicodeWidthStr;

use crate::{GraphNode, clean, colour, layout::Layout};

/// Measures of the SVG: box size, gaps between boxes, margin, and the space for a bend.
const BOX_HEIGHT: i64 = 52;
const LAYER_GAP: i64 = 64;
const BOX_GAP: i64 = 20;
const MARGIN: i64 = 24;
const BEND_HEIGHT: i64 = 12;
/// Vertical positions are multiples of this, so that lines are either straight or visibly bent.
const UNIT: i64 = 4;

const STYLE: &str = "<style>\
.workflow{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
.workflow .box{fill:#fff;stroke:#d8dee8}.workflow .name{font-size:13px;font-weight:600;fill:#0f172a}\
.workflow .note{font-size:11px;fill:#64748b}\
.workflow .edge{fill:none;stroke:#a3b0c2;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}\
@media (prefers-color-scheme:dark){.workflow .box{fill:#1b2433;stroke:#334155}.workflow .name{fill:#f1f5f9}\
.workflow .note{fill:#94a3b8}.workflow .edge{stroke:#5b6b82}}</style>\n";

/// Renders the graph as a standalone SVG file.
pub fn svg(name: &str, nodes: &[GraphNode]) -> String {
    draw(name, nodes, None)
}

/// Renders the graph as part of a page, whose style sheet styles `.workflow` and whose jobs link to `link`.
pub fn embedded(name: &str, nodes: &[GraphNode], link: &dyn Fn(usize) -> String) -> String {
    draw(name, nodes, Some(link))
}

fn draw(name: &str, nodes: &[GraphNode], link: Option<&dyn Fn(usize) -> String>) -> String {
    let layout = Layout::of(nodes);
    let half = |point: usize| (BOX_GAP + if point < nodes.len() { BOX_HEIGHT } else { BEND_HEIGHT }) / 2;
    let units = layout.positions(&|point| (half(point) / UNIT, half(point) / UNIT));
    let mut y: Vec<i64> = units.into_iter().map(|at| at * UNIT).collect();
    let mut height = MARGIN;
    for part in &layout.parts {
        let bottom = part.iter().flatten().map(|&point| y[point] + half(point)).max().unwrap_or(0);
        part.iter().flatten().for_each(|&point| y[point] += height - BOX_GAP / 2);
        height += bottom;
    }
    let drawing = SvgDrawing { nodes, layout: &layout, y, box_width: box_width(nodes), link };
    let layers = layout.parts.iter().map(Vec::len).max().unwrap_or(0);
    drawing.svg(name, drawing.x(layers.max(1)) - LAYER_GAP + MARGIN, height.max(MARGIN + BOX_HEIGHT) - BOX_GAP + MARGIN)
}

/// All boxes have the width of the widest label. A little more than half an em per column is enough for most letters.
fn box_width(nodes: &[GraphNode]) -> i64 {
    let tenths = |node: &GraphNode| (node.name().width() * 78).max(node.subtitle().width() * 64);
    i64::try_from(nodes.iter().map(tenths).max().unwrap_or(0) / 10).unwrap_or(0).max(84) + 40
}

/// An SVG in progress: its contents, and the vertical position of each point.
struct SvgDrawing<'a> {
    nodes: &'a [GraphNode],
    layout: &'a Layout,
    y: Vec<i64>,
    box_width: i64,
    link: Option<&'a dyn Fn(usize) -> String>,
}

impl SvgDrawing<'_> {
    fn x(&self, layer: usize) -> i64 {
        MARGIN + i64::try_from(layer).unwrap_or(0) * (self.box_width + LAYER_GAP)
    }

    fn svg(&self, name: &str, width: i64, height: i64) -> String {
        let (name, jobs) = (xml_escaped(name), self.nodes.len());
        // An image has no parts that can be clicked.
        let (style, role) = if self.link.is_some() { ("", "group") } else { (STYLE, "img") };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"workflow\" role=\"{role}\" aria-label=\"Workflow {name}, \
             jobs: {jobs}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>{name}</title>\n{style}<g class=\"edge\">\n"
        );
        (0..self.y.len()).for_each(|point| self.edges(&mut out, point));
        out += "</g>\n";
        self.nodes.iter().enumerate().for_each(|(at, node)| self.job(&mut out, at, node));
        if self.nodes.is_empty() {
            out += &format!("<text class=\"note\" x=\"{MARGIN}\" y=\"{}\">no jobs</text>\n", height / 2);
        }
        out + "</svg>\n"
    }

    fn edges(&self, out: &mut String, from: usize) {
        let (x, y) = (self.x(self.layout.layer[from]) + self.box_width, self.y[from]);
        for &to in &self.layout.below[from] {
            let is_job = to < self.nodes.len();
            let (end, end_y) = (self.x(self.layout.layer[to]) - if is_job { 9 } else { 0 }, self.y[to]);
            let (bend, end_bend) = (x + LAYER_GAP / 2, end - LAYER_GAP / 2);
            // A curve to a job ends in an arrow head; a curve to a bend continues straight for the width of the boxes.
            let tail = if is_job { "h6m-6-4 6 4-6 4".to_owned() } else { format!("h{}", self.box_width) };
            *out += &format!("<path d=\"M{x} {y}C{bend} {y} {end_bend} {end_y} {end} {end_y}{tail}\"/>\n");
        }
    }

    /// The texts are in a nested SVG, which clips text of a wide font at the edge of the box.
    fn job(&self, out: &mut String, at: usize, node: &GraphNode) {
        let (x, y) = (self.x(self.layout.layer[at]), self.y[at] - BOX_HEIGHT / 2);
        let (width, bar_height, text_width) = (self.box_width, BOX_HEIGHT - 24, self.box_width - 6);
        let (name, subtitle) = (xml_escaped(&node.name()), xml_escaped(&node.subtitle()));
        let link = self.link.map(|link| xml_escaped(&link(at)));
        let (open, close) = link.map_or_else(Default::default, |to| (format!("<a href=\"{to}\">"), "</a>"));
        // A page opens its part with the graph here.
        let is_root = self.link.is_some() && self.layout.layer.iter().position(|layer| *layer == 0) == Some(at);
        let root = if is_root { " class=\"root\"" } else { "" };
        *out += &format!(
            "{open}<g transform=\"translate({x} {y})\"{root}><title>{}</title>\
             <rect class=\"box\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"10\"/>\
             <rect x=\"12\" y=\"12\" width=\"4\" height=\"{bar_height}\" rx=\"2\" class=\"s-{}\" fill=\"{}\"/>\
             <svg width=\"{text_width}\" height=\"{BOX_HEIGHT}\"><text class=\"name\" x=\"26\" y=\"23\">{name}</text>\
             <text class=\"note\" x=\"26\" y=\"39\">{subtitle}</text></svg></g>{close}\n",
            xml_escaped(&node.node),
            node.status,
            colour(node.status)
        );
    }
}

fn xml_escaped(text: &str) -> String {
    let text: String = text.chars().map(clean).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
