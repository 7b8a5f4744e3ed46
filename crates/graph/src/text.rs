//! The graph drawn with characters.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::Status;
use unicode_width::UnicodeWidthStr;

use crate::{
    GraphNode,
    layout::{Layout, layered},
};

/// Wider drawings would wrap in most terminals and become unreadable: a list is shown instead.
const TEXT_COLUMNS: usize = 160;
/// More jobs than this are shown as a list.
const TEXT_JOBS: usize = 60;

type Paint<'a> = &'a dyn Fn(&str, Status) -> String;

/// Renders the graph with characters, without a trailing newline. `paint` colours a text in the colour of a status; it
/// must not change the visible width.
pub fn text(nodes: &[GraphNode], paint: &dyn Fn(&str, Status) -> String) -> String {
    if nodes.is_empty() {
        return "no jobs".to_owned();
    }
    drawing(nodes, paint).unwrap_or_else(|| list(nodes, paint))
}

fn list(nodes: &[GraphNode], paint: Paint) -> String {
    let (layer, _) = layered(nodes);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&at| layer[at]);
    let digits = (layer.iter().max().unwrap_or(&0) + 1).to_string().len();
    let line = |&at: &usize| {
        let (node, status) = (&nodes[at], nodes[at].status);
        let head = format!("{:>digits$}  {} {}", layer[at] + 1, paint("●", status), node.name());
        format!("{head}  {}{}{}", paint(status.as_str(), status), node.kind(), after(node, nodes)).trim_end().to_owned()
    };
    order.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn after(node: &GraphNode, nodes: &[GraphNode]) -> String {
    let parents = node.parents_in(nodes);
    let mut names: Vec<String> = parents.iter().take(8).map(|&parent| nodes[parent].name()).collect();
    if parents.len() > names.len() {
        names.push(format!("and {} more", parents.len() - names.len()));
    }
    if names.is_empty() { String::new() } else { format!("  after: {}", names.join(", ")) }
}

/// The directions in which a line leaves its cell, as bits.
pub(crate) const UP: u8 = 1;
pub(crate) const DOWN: u8 = 2;
pub(crate) const LEFT: u8 = 4;
pub(crate) const RIGHT: u8 = 8;
/// The character for each combination of directions.
pub(crate) const LINES: [char; 16] = [' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'];

/// A row of the drawing: lines, and the labels drawn over them by column, with their visible widths.
#[derive(Clone)]
struct Row {
    lines: Vec<u8>,
    labels: BTreeMap<usize, (String, usize)>,
}

impl Row {
    fn across(&mut self, from: usize, to: usize) {
        self.lines[from..to].iter_mut().for_each(|line| *line |= RIGHT);
        self.lines[from + 1..=to].iter_mut().for_each(|line| *line |= LEFT);
    }

    /// Draws a vertical line. It interrupts a horizontal line that has no turn in this column: the two only cross.
    fn down(&mut self, column: usize) {
        let joined = self.lines[column] & (UP | DOWN) != 0;
        self.lines[column] = UP | DOWN | if joined { self.lines[column] } else { 0 };
    }

    fn print(&self) -> String {
        let (mut out, mut column) = (String::new(), 0);
        while let Some(&line) = self.lines.get(column) {
            match self.labels.get(&column) {
                Some((label, _)) => out.push_str(label),
                None => out.push(LINES[usize::from(line)]),
            }
            column += self.labels.get(&column).map_or(1, |(_, width)| (*width).max(1));
        }
        out.trim_end().to_owned()
    }
}

/// Points of one layer with the same points below: one horizontal line joins them all.
struct Net {
    from: Vec<usize>,
    /// The points below, and the columns in which their lines arrive.
    to: BTreeMap<usize, usize>,
    row: usize,
}

impl Net {
    fn span(&self) -> (usize, usize) {
        let columns = || self.from.iter().chain(self.to.values()).copied();
        (columns().min().unwrap_or(0), columns().max().unwrap_or(0))
    }

    fn is_straight(&self) -> bool {
        self.span().0 == self.span().1
    }

    /// The cost of drawing this line above the other: the number of crossings, plus a penalty if the lines would seem
    /// to be joined.
    fn cost_above(&self, other: &Net) -> usize {
        let within = |(start, end): (usize, usize), column: &&usize| (start..=end).contains(*column);
        let crossed = other.from.iter().filter(|column| within(self.span(), column)).count()
            + self.to.values().filter(|column| within(other.span(), column)).count();
        let misleads = other.to.len() > 1 && self.to.values().any(|own| other.to.values().any(|column| column == own));
        crossed + if misleads { 1_000 } else { 0 }
    }
}

/// A drawing in progress: its contents, and for each point its column and the columns that it may use.
struct Drawing<'a> {
    nodes: &'a [GraphNode],
    layout: &'a Layout,
    column: Vec<usize>,
    width: Vec<usize>,
    rows: Vec<Row>,
}

fn drawing(nodes: &[GraphNode], paint: Paint) -> Option<String> {
    if nodes.len() > TEXT_JOBS {
        return None;
    }
    let layout = Layout::of(nodes);
    if !layout.fine {
        return None;
    }
    let label = |node: &GraphNode| 2 + node.name().width().max(node.subtitle().width());
    // Lines that arrive from different nets need separate columns until they are merged above the job.
    let sets = |point: usize| layout.above[point].iter().map(|&from| &layout.below[from]).collect::<BTreeSet<_>>();
    let width = |point: usize| nodes.get(point).map_or(1, label).max(3 * sets(point).len());
    let width: Vec<usize> = (0..layout.layer.len()).map(width).collect();
    let positions = layout.positions(&|point| (0, i64::try_from(width[point] + 3).unwrap_or(0)));
    let column: Vec<usize> = positions.into_iter().map(|at| usize::try_from(at).unwrap_or(0)).collect();
    let columns = column.iter().zip(&width).map(|(column, width)| column + width).max()?;
    let mut drawing = Drawing { nodes, layout: &layout, column, width, rows: Vec::new() };
    let part = |part: &Vec<Vec<usize>>| drawing.part(part, columns, paint);
    (columns <= TEXT_COLUMNS).then(|| layout.parts.iter().map(part).collect::<Vec<_>>().join("\n\n"))
}

impl Drawing<'_> {
    fn part(&mut self, layers: &[Vec<usize>], columns: usize, paint: Paint) -> String {
        let empty = Row { lines: vec![0; columns], labels: BTreeMap::new() };
        for (depth, layer) in layers.iter().enumerate() {
            let mut rows = [empty.clone(), empty.clone()];
            layer.iter().for_each(|&point| self.point(&mut rows, point, paint));
            self.rows.extend(rows);
            if let Some(next) = layers.get(depth + 1) {
                self.channel(&empty, layer, next);
            }
        }
        self.rows.drain(..).map(|row| row.print()).collect::<Vec<_>>().join("\n")
    }

    /// Draws a point: a job takes two rows, name and status; a bend is a vertical line through both.
    fn point(&self, [first, second]: &mut [Row; 2], point: usize, paint: Paint) {
        let column = self.column[point];
        if !self.layout.below[point].is_empty() {
            second.down(column);
        }
        let Some(node) = self.nodes.get(point) else { return first.down(column) };
        let (name, status) = (node.name(), node.status);
        first.labels.insert(column, (format!("{} {name}", paint("●", status)), 2 + name.width()));
        second.labels.insert(
            column + 2,
            (format!("{}{}", paint(status.as_str(), status), node.kind()), node.subtitle().width()),
        );
    }

    /// Draws the lines between two layers.
    fn channel(&mut self, empty: &Row, layer: &[usize], next: &[usize]) {
        let mut nets = self.nets(layer);
        next.iter().for_each(|&point| self.dock(&mut nets, point));
        let mut rows = vec![empty.clone(); assign_rows(&mut nets)];
        for net in nets.iter().filter(|net| !net.is_straight()) {
            rows[net.row].across(net.span().0, net.span().1);
            net.from.iter().for_each(|&column| rows[net.row].lines[column] |= UP);
            net.to.values().for_each(|&column| rows[net.row].lines[column] |= DOWN);
        }
        for net in &nets {
            let (above, below) = rows.split_at_mut(net.row);
            let below = below.iter_mut().skip(usize::from(!net.is_straight()));
            above.iter_mut().for_each(|row| net.from.iter().for_each(|&column| row.down(column)));
            below.for_each(|row| net.to.values().for_each(|&column| row.down(column)));
        }
        self.rows.append(&mut rows);
        self.rows.extend(self.merged(empty, &nets, next));
    }

    fn nets(&self, layer: &[usize]) -> Vec<Net> {
        let mut nets: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for &point in layer.iter().filter(|&&point| !self.layout.below[point].is_empty()) {
            let mut below = self.layout.below[point].clone();
            below.sort_unstable();
            nets.entry(below).or_default().push(self.column[point]);
        }
        let net = |(below, from): (Vec<usize>, Vec<usize>)| {
            let to = below.into_iter().map(|point| (point, self.column[point])).collect();
            Net { from, to, row: 0 }
        };
        nets.into_iter().map(net).collect()
    }

    /// Assigns each net that reaches a point an arrival column in which no line of another net comes down, so that
    /// lines of different nets never overlap. A net without other targets may join another one.
    fn dock(&self, nets: &mut [Net], point: usize) {
        let (own, room) = (self.column[point], self.width[point]);
        let taken: BTreeSet<usize> = nets.iter().flat_map(|net| net.from.iter().copied()).collect();
        let columns = (own..own + room).step_by(2).chain((own + 1..own + room).step_by(2));
        let mut free = columns.filter(|column| !taken.contains(column));
        let mut arriving: Vec<&mut Net> = nets.iter_mut().filter(|net| net.to.contains_key(&point)).collect();
        arriving.sort_by_key(|net| (net.to.len() == 1, !net.from.contains(&own), net.from.clone()));
        let mut host = None;
        for net in arriving {
            let above = net.from.contains(&own).then_some(own);
            let joined = host.filter(|_| net.to.len() == 1);
            let column = above.or(joined).or_else(|| free.next()).unwrap_or(own);
            host = host.or(Some(column));
            net.to.insert(point, column);
        }
    }

    /// The row directly above the points of a layer, if one is needed to merge the lines that arrive at each point.
    fn merged(&self, empty: &Row, nets: &[Net], next: &[usize]) -> Option<Row> {
        let mut row = empty.clone();
        for &point in next {
            let own = self.column[point];
            let columns: BTreeSet<usize> = nets.iter().filter_map(|net| net.to.get(&point).copied()).collect();
            row.across(*columns.first()?.min(&own), *columns.last()?.max(&own));
            columns.iter().for_each(|&column| row.lines[column] |= UP);
            row.lines[own] |= DOWN;
        }
        row.lines.iter().any(|line| line & (LEFT | RIGHT) != 0).then_some(row)
    }
}

/// Assigns rows to the horizontal lines, in the order with the fewest crossings, and returns the number of rows.
fn assign_rows(nets: &mut [Net]) -> usize {
    let mut order: Vec<usize> = Vec::new();
    for net in (0..nets.len()).filter(|&net| !nets[net].is_straight()) {
        let cost = |slot: &usize| {
            let (above, below) = order.split_at(*slot);
            let above: usize = above.iter().map(|&other| nets[other].cost_above(&nets[net])).sum();
            above + below.iter().map(|&other| nets[net].cost_above(&nets[other])).sum::<usize>()
        };
        let slot = (0..=order.len()).min_by_key(cost).unwrap_or(0);
        order.insert(slot, net);
    }
    for (index, &net) in order.iter().enumerate() {
        let (start, end) = nets[net].span();
        let touches = |&&other: &&usize| nets[other].span().0 <= end + 1 && start <= nets[other].span().1 + 1;
        let earlier = order[..index].iter().filter(touches);
        nets[net].row = earlier.map(|&other| nets[other].row + 1).max().unwrap_or(0);
    }
    order.iter().map(|&net| nets[net].row + 1).max().unwrap_or(0)
}
