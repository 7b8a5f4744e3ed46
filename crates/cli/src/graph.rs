//! A workflow, drawn: in the terminal, as DOT, as SVG.

use std::collections::{BTreeMap, BTreeSet};

use unicode_width::UnicodeWidthStr;

/// Longer names are cut to this many columns.
const NAME_COLUMNS: usize = 32;
/// A wider picture would wrap in most terminals, and a wrapped picture says nothing: it becomes a list.
const TEXT_COLUMNS: usize = 160;
/// More jobs than this are easier to read as a list.
const TEXT_JOBS: usize = 60;
/// Jobs, edges and bends together, above which the picture is stacked simply instead of being refined.
const FINE_WORK: usize = 4_000;
/// How often the layers are gone through, down and up, to untangle and to align them.
const SWEEPS: usize = 24;

/// One job of the picture.
#[derive(Debug, Clone)]
pub(crate) struct GraphNode {
    /// Its name in the workflow.
    pub(crate) node: String,
    /// What kind of job it is; shown where it differs from `node`.
    pub(crate) job: String,
    /// The word for its status: waiting, scheduled, queued, processing, succeeded, retrying, dead, cancelled, deleted.
    pub(crate) status: &'static str,
    /// The places, in the same list, of the jobs it waits for.
    pub(crate) parents: Vec<usize>,
}

impl GraphNode {
    fn name(&self) -> String {
        cut(&self.node)
    }

    /// What follows the status in the second line: the kind of job, where the name does not say it already.
    fn kind(&self) -> String {
        if self.job == self.node || self.job.is_empty() { String::new() } else { format!(" · {}", cut(&self.job)) }
    }

    fn note(&self) -> String {
        format!("{}{}", self.status, self.kind())
    }

    fn parents_in(&self, nodes: &[GraphNode]) -> BTreeSet<usize> {
        self.parents.iter().copied().filter(|&parent| parent < nodes.len()).collect()
    }
}

fn colour(status: &str) -> &'static str {
    match status {
        "scheduled" => "#8b5cf6",
        "queued" => "#3b82f6",
        "processing" => "#eab308",
        "succeeded" => "#22c55e",
        "retrying" => "#ea7317",
        "dead" => "#ef4444",
        "cancelled" | "deleted" => "#94a3b8",
        _ => "#64748b",
    }
}

/// Replaces what would move the cursor, turn the writing direction or be no character of XML.
fn clean(c: char) -> char {
    let unsafe_to_show =
        c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}');
    if unsafe_to_show { '\u{fffd}' } else { c }
}

fn cut(name: &str) -> String {
    let mut shown = String::new();
    for (count, c) in name.chars().map(clean).enumerate() {
        let fits = shown.len();
        shown.push(c);
        // Marks without a width of their own could go on for ever, so their number is bounded as well.
        if shown.width() > NAME_COLUMNS || count > 4 * NAME_COLUMNS {
            shown.truncate(fits);
            while shown.width() >= NAME_COLUMNS && shown.pop().is_some() {}
            shown.push('…');
            break;
        }
    }
    shown
}

/// What a point needs before and behind its place in a layer.
type Room<'a> = &'a dyn Fn(usize) -> (i64, i64);

/// The jobs in layers. The first points are the jobs; the others are bends of edges that skip layers.
struct Layout {
    layer: Vec<usize>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The parts that no edge connects, each as its layers, each as its points in order.
    parts: Vec<Vec<Vec<usize>>>,
    fine: bool,
}

impl Layout {
    fn of(nodes: &[GraphNode]) -> Layout {
        let (layer, children) = layered(nodes);
        let reach = |at: usize| children[at].iter().map(|&child| layer[child] - layer[at]).max().unwrap_or(0);
        let work: usize = (0..nodes.len()).map(|at| 1 + children[at].len() + reach(at)).sum();
        let (above, below) = (vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]);
        let mut layout = Layout { layer, above, below, parts: Vec::new(), fine: work <= FINE_WORK };
        layout.connect(&children);
        layout.divide();
        layout.untangle();
        layout
    }

    /// Links neighbouring layers. Jobs of one layer with the same children share the bends of their long edges,
    /// and so do the edges of one job: one line instead of many side by side.
    fn connect(&mut self, children: &[Vec<usize>]) {
        let mut bundles: BTreeMap<(usize, Vec<usize>), Vec<usize>> = BTreeMap::new();
        for (at, children) in children.iter().enumerate() {
            let mut children = children.clone();
            children.sort_by_key(|&child| (self.layer[child], child));
            bundles.entry((self.layer[at], children)).or_default().push(at);
        }
        for ((mut depth, children), mut ends) in bundles {
            for child in children {
                while self.fine && depth + 1 < self.layer[child] {
                    depth += 1;
                    ends = vec![self.bend(&ends, depth)];
                }
                self.link(&ends, child);
            }
        }
    }

    fn bend(&mut self, from: &[usize], layer: usize) -> usize {
        let bend = self.layer.len();
        self.layer.push(layer);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        self.link(from, bend);
        bend
    }

    fn link(&mut self, from: &[usize], to: usize) {
        from.iter().for_each(|&point| self.below[point].push(to));
        self.above[to].extend(from);
    }

    fn divide(&mut self) {
        let mut leader: Vec<usize> = (0..self.layer.len()).collect();
        for (a, below) in self.below.iter().enumerate() {
            for &b in below {
                let (a, b) = (find(&mut leader, a), find(&mut leader, b));
                leader[a.max(b)] = a.min(b);
            }
        }
        let mut parts: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
        for (point, &layer) in self.layer.iter().enumerate() {
            let part = parts.entry(find(&mut leader, point)).or_default();
            part.resize(part.len().max(layer + 1), Vec::new());
            part[layer].push(point);
        }
        self.parts = parts.into_values().collect();
    }

    /// Orders every layer by the mean place of its neighbours, down and up, and keeps the order that crosses least.
    fn untangle(&mut self) {
        let mut rank = vec![0; self.layer.len()];
        let mut parts = std::mem::take(&mut self.parts);
        for best in &mut parts {
            let (mut part, mut least) = (best.clone(), usize::MAX);
            part.iter().for_each(|layer| number(layer, &mut rank));
            for sweep in 0..if self.fine { SWEEPS } else { 1 } {
                let near = if sweep % 2 == 1 { &self.below } else { &self.above };
                for depth in order(part.len(), sweep) {
                    part[depth].sort_by_cached_key(|&point| mean_rank(point, &near[point], &rank));
                    number(&part[depth], &mut rank);
                }
                let crossings = if self.fine { self.crossings(&part, &rank) } else { 0 };
                if crossings < least {
                    (least, *best) = (crossings, part.clone());
                }
            }
        }
        self.parts = parts;
    }

    fn crossings(&self, part: &[Vec<usize>], rank: &[usize]) -> usize {
        let in_gap = |layer: &Vec<usize>| {
            let lines = |&from: &usize| self.below[from].iter().map(move |&to| (rank[from], rank[to]));
            let lines: Vec<(usize, usize)> = layer.iter().flat_map(lines).collect();
            let crossed =
                |(at, a): (usize, &(usize, usize))| lines[at..].iter().filter(|b| a.0 < b.0 && a.1 > b.1).count();
            lines.iter().enumerate().map(crossed).sum::<usize>()
        };
        part.iter().map(in_gap).sum()
    }

    /// Where each point stands across its layer, every part beginning at 0.
    fn place(&self, room: Room) -> Vec<i64> {
        let mut at = vec![0; self.layer.len()];
        for part in &self.parts {
            part.iter().for_each(|layer| stack(layer, room, &mut at));
            if self.fine {
                self.align(part, room, &mut at);
            }
            let start = part.iter().flatten().map(|&point| at[point] - room(point).0).min().unwrap_or(0);
            part.iter().flatten().for_each(|&point| at[point] -= start);
        }
        at
    }

    /// Moves the points of each layer towards their neighbours, and keeps the places that make the best lines.
    fn align(&self, part: &[Vec<usize>], room: Room, at: &mut [i64]) {
        let (mut best, mut least) = (Vec::new(), i64::MAX);
        for sweep in 0..SWEEPS {
            for depth in order(part.len(), sweep) {
                settle(&part[depth], room, at, &|point, at| {
                    let above = self.above[point].iter().filter(|_| sweep % 3 != 1);
                    let below = self.below[point].iter().filter(|_| sweep % 3 != 0);
                    let mut near: Vec<i64> = above.chain(below).map(|&other| at[other]).collect();
                    near.sort_unstable();
                    middle(&near, false).unwrap_or(at[point])
                });
            }
            let cost = part.iter().flatten().map(|&point| self.bending(point, at[point], at)).sum();
            if cost < least {
                (least, best) = (cost, at.to_vec());
            }
        }
        part.iter().flatten().for_each(|&point| at[point] = best[point]);
        part.iter().for_each(|layer| self.nudge(layer, room, at));
    }

    /// Moves single points a little where that makes a small bend straight.
    fn nudge(&self, layer: &[usize], room: Room, at: &mut [i64]) {
        for (place, &point) in layer.iter().enumerate() {
            let (before, after) = (layer[..place].last(), layer.get(place + 1));
            let start = before.map_or(i64::MIN, |&other| at[other] + room(other).1 + room(point).0);
            let end = after.map_or(i64::MAX, |&other| at[other] - room(other).0 - room(point).1);
            let now = at[point];
            let places = (now - 3..=now + 3).filter(|place| (start..=end).contains(place));
            let effort = |place: i64| if place == now { 0 } else { 10 + (place - now).abs() };
            at[point] = places.min_by_key(|&place| self.bending(point, place, at) + effort(place)).unwrap_or(now);
        }
    }

    /// How far from straight the lines of a point are if it stands at this place. Small bends are the ugliest.
    fn bending(&self, point: usize, place: i64, at: &[i64]) -> i64 {
        let bend = |&other: &usize| match (at[other] - place).abs() {
            0 => 0,
            off @ 1..=3 => off + 60,
            off => off + 40,
        };
        self.above[point].iter().chain(&self.below[point]).map(bend).sum()
    }
}

/// The layer of each job by its longest way from a start, and its children. An edge that closes a circle is left out.
fn layered(nodes: &[GraphNode]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut children = vec![Vec::new(); nodes.len()];
    let mut waits = vec![0_usize; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        let mut parents = node.parents_in(nodes);
        parents.remove(&at);
        waits[at] = parents.len();
        parents.into_iter().for_each(|parent| children[parent].push(at));
    }
    let (mut layer, mut done) = (vec![0; nodes.len()], vec![false; nodes.len()]);
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&at| waits[at] == 0).collect();
    let mut rest = 0..nodes.len();
    // When none is ready, the jobs left wait for each other in a circle, and the first of them opens it.
    while let Some(at) = ready.pop().or_else(|| rest.find(|&at| !done[at])) {
        done[at] = true;
        children[at].retain(|&child| !done[child]);
        for &child in &children[at] {
            layer[child] = layer[child].max(layer[at] + 1);
            waits[child] -= 1;
            if waits[child] == 0 {
                ready.push(child);
            }
        }
    }
    (layer, children)
}

fn find(leader: &mut [usize], mut point: usize) -> usize {
    while leader[point] != point {
        leader[point] = leader[leader[point]];
        point = leader[point];
    }
    point
}

fn order(len: usize, sweep: usize) -> impl Iterator<Item = usize> {
    (0..len).map(move |step| if sweep % 2 == 1 { len - 1 - step } else { step })
}

fn number(layer: &[usize], rank: &mut [usize]) {
    layer.iter().enumerate().for_each(|(place, &point)| rank[point] = place);
}

fn mean_rank(point: usize, near: &[usize], rank: &[usize]) -> usize {
    let sum: usize = near.iter().map(|&other| rank[other] * 1_000).sum();
    sum.checked_div(near.len()).unwrap_or(rank[point] * 1_000)
}

/// The median. Wishes round down and blocks round up, so that what opens from a job also closes in its column.
fn middle(sorted: &[i64], round_up: bool) -> Option<i64> {
    let (low, high) = (sorted.get(sorted.len().saturating_sub(1) / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high + i64::from(round_up)).div_euclid(2))
}

/// Puts the points of a layer next to each other, their middle at 0.
fn stack(layer: &[usize], room: Room, at: &mut [i64]) {
    let total: i64 = layer.iter().map(|&point| room(point).0 + room(point).1).sum();
    let mut edge = -total / 2;
    for &point in layer {
        at[point] = edge + room(point).0;
        edge = at[point] + room(point).1;
    }
}

/// Puts the points of a layer as near to their wishes as their order and room allow. Points that would overlap form
/// a block that stands at the median of its wishes, so that most edges stay straight.
fn settle(layer: &[usize], room: Room, at: &mut [i64], wish: &dyn Fn(usize, &[i64]) -> i64) {
    let (mut blocks, mut offsets) = (Vec::<Vec<i64>>::new(), Vec::new());
    let mut end = 0;
    for &point in layer {
        let offset = end + room(point).0;
        end = offset + room(point).1;
        offsets.push(offset);
        let mut block = vec![wish(point, at) - offset];
        while let Some(mut before) = blocks.pop_if(|before| middle(before, true) > middle(&block, true)) {
            before.append(&mut block);
            before.sort();
            block = before;
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|block| vec![middle(block, true).unwrap_or(0); block.len()]);
    for ((&point, offset), place) in layer.iter().zip(offsets).zip(places) {
        at[point] = place + offset;
    }
}

type Paint<'a> = &'a dyn Fn(&str, &str) -> String;

/// The picture in characters, without a newline at its end. `paint` colours a text in the colour of a status; it must
/// not change the visible width.
pub(crate) fn text(nodes: &[GraphNode], paint: &dyn Fn(&str, &str) -> String) -> String {
    if nodes.is_empty() {
        return "no jobs".to_owned();
    }
    drawing(nodes, paint).unwrap_or_else(|| list(nodes, paint))
}

fn list(nodes: &[GraphNode], paint: Paint) -> String {
    let (layer, _) = layered(nodes);
    let mut places: Vec<usize> = (0..nodes.len()).collect();
    places.sort_by_key(|&at| layer[at]);
    let digits = (layer.iter().max().unwrap_or(&0) + 1).to_string().len();
    let line = |&at: &usize| {
        let (node, status) = (&nodes[at], nodes[at].status);
        let head = format!("{:>digits$}  {} {}", layer[at] + 1, paint("●", status), node.name());
        format!("{head}  {}{}{}", paint(status, status), node.kind(), after(node, nodes)).trim_end().to_owned()
    };
    places.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn after(node: &GraphNode, nodes: &[GraphNode]) -> String {
    let parents = node.parents_in(nodes);
    let mut names: Vec<String> = parents.iter().take(8).map(|&parent| nodes[parent].name()).collect();
    if parents.len() > names.len() {
        names.push(format!("and {} more", parents.len() - names.len()));
    }
    if names.is_empty() { String::new() } else { format!("  after: {}", names.join(", ")) }
}

/// The directions in which a line leaves its cell.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;
/// The line for each sum of directions.
const LINES: [char; 16] = [' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'];

/// A row of the drawing: lines, and words laid over them where they begin, with their visible widths.
#[derive(Clone)]
struct Row {
    lines: Vec<u8>,
    words: BTreeMap<usize, (String, usize)>,
}

impl Row {
    fn across(&mut self, from: usize, to: usize) {
        self.lines[from..to].iter_mut().for_each(|line| *line |= RIGHT);
        self.lines[from + 1..=to].iter_mut().for_each(|line| *line |= LEFT);
    }

    /// A line down. Where it meets a line across that has no turn there, it interrupts it: they only cross.
    fn down(&mut self, column: usize) {
        let joined = self.lines[column] & (UP | DOWN) != 0;
        self.lines[column] = UP | DOWN | if joined { self.lines[column] } else { 0 };
    }

    fn print(&self) -> String {
        let (mut out, mut column) = (String::new(), 0);
        while let Some(&line) = self.lines.get(column) {
            match self.words.get(&column) {
                Some((word, _)) => out.push_str(word),
                None => out.push(LINES[usize::from(line)]),
            }
            column += self.words.get(&column).map_or(1, |(_, width)| (*width).max(1));
        }
        out.trim_end().to_owned()
    }
}

/// Points of one layer with the same points below them: one line across joins them all.
struct Net {
    from: Vec<usize>,
    /// The points below, and the columns in which the lines to them arrive.
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

    /// What it costs to draw this line above the other: crossings, or much if it would then seem to join it.
    fn cost_above(&self, other: &Net) -> usize {
        let within = |(start, end): (usize, usize), column: &&usize| (start..=end).contains(*column);
        let crossed = other.from.iter().filter(|column| within(self.span(), column)).count()
            + self.to.values().filter(|column| within(other.span(), column)).count();
        let misleads = other.to.len() > 1 && self.to.values().any(|own| other.to.values().any(|column| column == own));
        crossed + if misleads { 1_000 } else { 0 }
    }
}

/// A drawing in progress: what to draw, and for each point its column and the columns it may use.
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
    let label = |node: &GraphNode| 2 + node.name().width().max(node.note().width());
    // Lines that arrive from different nets need columns of their own until they are merged above the job.
    let sets = |point: usize| layout.above[point].iter().map(|&from| &layout.below[from]).collect::<BTreeSet<_>>();
    let width = |point: usize| nodes.get(point).map_or(1, label).max(3 * sets(point).len());
    let width: Vec<usize> = (0..layout.layer.len()).map(width).collect();
    let places = layout.place(&|point| (0, i64::try_from(width[point] + 3).unwrap_or(0)));
    let column: Vec<usize> = places.into_iter().map(|at| usize::try_from(at).unwrap_or(0)).collect();
    let columns = column.iter().zip(&width).map(|(column, width)| column + width).max()?;
    let mut drawing = Drawing { nodes, layout: &layout, column, width, rows: Vec::new() };
    let part = |part: &Vec<Vec<usize>>| drawing.part(part, columns, paint);
    (columns <= TEXT_COLUMNS).then(|| layout.parts.iter().map(part).collect::<Vec<_>>().join("\n\n"))
}

impl Drawing<'_> {
    fn part(&mut self, layers: &[Vec<usize>], columns: usize, paint: Paint) -> String {
        let empty = Row { lines: vec![0; columns], words: BTreeMap::new() };
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

    /// A job takes two rows, name and status; a bend is a line through both.
    fn point(&self, [first, second]: &mut [Row; 2], point: usize, paint: Paint) {
        let column = self.column[point];
        if !self.layout.below[point].is_empty() {
            second.down(column);
        }
        let Some(node) = self.nodes.get(point) else { return first.down(column) };
        let (name, status) = (node.name(), node.status);
        first.words.insert(column, (format!("{} {name}", paint("●", status)), 2 + name.width()));
        second.words.insert(column + 2, (format!("{}{}", paint(status, status), node.kind()), node.note().width()));
    }

    /// The lines between two layers.
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

    /// Gives each net that reaches a point a column to arrive in: one that no line of another net comes down in, so
    /// that lines of different nets never lie on each other. A net that leads nowhere else may join another one.
    fn dock(&self, nets: &mut [Net], point: usize) {
        let (place, room) = (self.column[point], self.width[point]);
        let taken: BTreeSet<usize> = nets.iter().flat_map(|net| net.from.iter().copied()).collect();
        let columns = (place..place + room).step_by(2).chain((place + 1..place + room).step_by(2));
        let mut free = columns.filter(|column| !taken.contains(column));
        let mut arriving: Vec<&mut Net> = nets.iter_mut().filter(|net| net.to.contains_key(&point)).collect();
        arriving.sort_by_key(|net| (net.to.len() == 1, !net.from.contains(&place), net.from.clone()));
        let mut host = None;
        for net in arriving {
            let above = net.from.contains(&place).then_some(place);
            let joined = host.filter(|_| net.to.len() == 1);
            let column = above.or(joined).or_else(|| free.next()).unwrap_or(place);
            host = host.or(Some(column));
            net.to.insert(point, column);
        }
    }

    /// The row right above the points of a layer, if one is needed to bring the lines that arrive at each together.
    fn merged(&self, empty: &Row, nets: &[Net], next: &[usize]) -> Option<Row> {
        let mut row = empty.clone();
        for &point in next {
            let place = self.column[point];
            let columns: BTreeSet<usize> = nets.iter().filter_map(|net| net.to.get(&point).copied()).collect();
            row.across(*columns.first()?.min(&place), *columns.last()?.max(&place));
            columns.iter().for_each(|&column| row.lines[column] |= UP);
            row.lines[place] |= DOWN;
        }
        row.lines.iter().any(|line| line & (LEFT | RIGHT) != 0).then_some(row)
    }
}

/// Puts the lines across into rows, in the order that crosses least, and says how many rows they need.
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
    for (place, &net) in order.iter().enumerate() {
        let (start, end) = nets[net].span();
        let touches = |&&other: &&usize| nets[other].span().0 <= end + 1 && start <= nets[other].span().1 + 1;
        let earlier = order[..place].iter().filter(touches);
        nets[net].row = earlier.map(|&other| nets[other].row + 1).max().unwrap_or(0);
    }
    order.iter().map(|&net| nets[net].row + 1).max().unwrap_or(0)
}

/// The picture for Graphviz.
pub(crate) fn dot(name: &str, nodes: &[GraphNode]) -> String {
    let mut out = format!("digraph \"{}\" {{\n  rankdir=LR;\n", dot_escaped(name));
    out += "  node [shape=box, style=\"rounded,filled\", color=transparent, fontname=Helvetica];\n";
    out += "  edge [color=\"#94a3b8\", arrowsize=0.7];\n";
    if nodes.is_empty() {
        out += "  label=\"no jobs\";\n";
    }
    for (at, node) in nodes.iter().enumerate() {
        // Graphviz reads entities in a label, so that an ampersand has to be one.
        let label = format!("{}\\n{}", dot_escaped(&node.node), dot_escaped(&node.note())).replace('&', "&amp;");
        let ink = if colour(node.status) == "#64748b" { "#ffffff" } else { "#0f172a" };
        out += &format!("  n{at} [label=\"{label}\", fillcolor=\"{}\", fontcolor=\"{ink}\"];\n", colour(node.status));
    }
    for (at, node) in nodes.iter().enumerate() {
        node.parents_in(nodes).iter().for_each(|parent| out += &format!("  n{parent} -> n{at};\n"));
    }
    out + "}\n"
}

fn dot_escaped(text: &str) -> String {
    let text: String = text.chars().map(clean).collect();
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The measures of the SVG: a box, the gaps between boxes, the margin around all, and what a bend needs.
const BOX_HEIGHT: i64 = 52;
const LAYER_GAP: i64 = 64;
const BOX_GAP: i64 = 20;
const MARGIN: i64 = 24;
const BEND_HEIGHT: i64 = 12;
/// Heights are multiples of this, so that lines are either straight or visibly bent.
const UNIT: i64 = 4;

const STYLE: &str = "<style>\
.workflow{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
.workflow .box{fill:#fff;stroke:#d8dee8}.workflow .name{font-size:13px;font-weight:600;fill:#0f172a}\
.workflow .note{font-size:11px;fill:#64748b}\
.workflow .edge{fill:none;stroke:#a3b0c2;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}\
@media (prefers-color-scheme:dark){.workflow .box{fill:#1b2433;stroke:#334155}.workflow .name{fill:#f1f5f9}\
.workflow .note{fill:#94a3b8}.workflow .edge{stroke:#5b6b82}}</style>\n";

/// The picture as a file of its own.
pub(crate) fn svg(name: &str, nodes: &[GraphNode]) -> String {
    let layout = Layout::of(nodes);
    let half = |point: usize| (BOX_GAP + if point < nodes.len() { BOX_HEIGHT } else { BEND_HEIGHT }) / 2;
    let units = layout.place(&|point| (half(point) / UNIT, half(point) / UNIT));
    let mut y: Vec<i64> = units.into_iter().map(|at| at * UNIT).collect();
    let mut height = MARGIN;
    for part in &layout.parts {
        let bottom = part.iter().flatten().map(|&point| y[point] + half(point)).max().unwrap_or(0);
        part.iter().flatten().for_each(|&point| y[point] += height - BOX_GAP / 2);
        height += bottom;
    }
    let plate = Plate { nodes, layout: &layout, y, box_width: box_width(nodes) };
    let layers = layout.parts.iter().map(Vec::len).max().unwrap_or(0);
    plate.svg(name, plate.x(layers.max(1)) - LAYER_GAP + MARGIN, height.max(MARGIN + BOX_HEIGHT) - BOX_GAP + MARGIN)
}

/// All boxes are as wide as the widest label needs. Half an em and a bit per column is wide enough for most letters.
fn box_width(nodes: &[GraphNode]) -> i64 {
    let tenths = |node: &GraphNode| (node.name().width() * 78).max(node.note().width() * 64);
    i64::try_from(nodes.iter().map(tenths).max().unwrap_or(0) / 10).unwrap_or(0).max(84) + 40
}

/// An SVG in progress: what to draw, and the height in which each point stands.
struct Plate<'a> {
    nodes: &'a [GraphNode],
    layout: &'a Layout,
    y: Vec<i64>,
    box_width: i64,
}

impl Plate<'_> {
    fn x(&self, layer: usize) -> i64 {
        MARGIN + i64::try_from(layer).unwrap_or(0) * (self.box_width + LAYER_GAP)
    }

    fn svg(&self, name: &str, width: i64, height: i64) -> String {
        let (name, jobs) = (xml_escaped(name), self.nodes.len());
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"workflow\" role=\"img\" aria-label=\"Workflow {name}, \
             jobs: {jobs}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>{name}</title>\n{STYLE}<g class=\"edge\">\n"
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
            // A curve to a job ends in an arrow head; one to a bend goes on straight, as far as boxes go there.
            let tail = if is_job { "h6m-6-4 6 4-6 4".to_owned() } else { format!("h{}", self.box_width) };
            *out += &format!("<path d=\"M{x} {y}C{bend} {y} {end_bend} {end_y} {end} {end_y}{tail}\"/>\n");
        }
    }

    /// The texts are in an SVG of their own because that clips what a wide font would draw beyond the box.
    fn job(&self, out: &mut String, at: usize, node: &GraphNode) {
        let (x, y) = (self.x(self.layout.layer[at]), self.y[at] - BOX_HEIGHT / 2);
        let (width, bar_height, text_width) = (self.box_width, BOX_HEIGHT - 24, self.box_width - 6);
        let (name, note) = (xml_escaped(&node.name()), xml_escaped(&node.note()));
        *out += &format!(
            "<g transform=\"translate({x} {y})\"><title>{}</title>\
             <rect class=\"box\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"10\"/>\
             <rect x=\"12\" y=\"12\" width=\"4\" height=\"{bar_height}\" rx=\"2\" fill=\"{}\"/>\
             <svg width=\"{text_width}\" height=\"{BOX_HEIGHT}\"><text class=\"name\" x=\"26\" y=\"23\">{name}</text>\
             <text class=\"note\" x=\"26\" y=\"39\">{note}</text></svg></g>\n",
            xml_escaped(&node.node),
            colour(node.status)
        );
    }
}

fn xml_escaped(text: &str) -> String {
    let text: String = text.chars().map(clean).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(node: &str, status: &'static str, parents: &[usize]) -> GraphNode {
        GraphNode { node: node.to_owned(), job: node.to_owned(), status, parents: parents.to_vec() }
    }

    fn plain(nodes: &[GraphNode]) -> String {
        text(nodes, &|text, _| text.to_owned())
    }

    fn many(count: usize, parents: impl Fn(usize) -> Vec<usize>) -> Vec<GraphNode> {
        (0..count).map(|at| job(&format!("n{at}"), "queued", &parents(at))).collect()
    }

    /// Reads a drawing as a person does: from every job down along the lines, never up, to the jobs they end at.
    fn edges_in(picture: &str) -> BTreeSet<(String, String)> {
        let grid: Vec<Vec<char>> = picture.lines().map(|line| line.chars().collect()).collect();
        let at = |row: usize, column: usize| grid.get(row).and_then(|line| line.get(column)).copied().unwrap_or(' ');
        let name = |row: usize, column: usize| grid[row][column + 2..].iter().take_while(|c| **c != ' ').collect();
        let mut edges = BTreeSet::new();
        let places = grid.iter().enumerate().flat_map(|(row, line)| (0..line.len()).map(move |column| (row, column)));
        for (row, column) in places.filter(|&(row, column)| at(row, column) == '●') {
            let (mut ways, mut seen) = (vec![(row + 1, column, DOWN)], BTreeSet::new());
            while let Some((y, x, way)) = ways.pop() {
                if at(y, x) == '●' {
                    edges.insert((name(row, column), name(y, x)));
                } else if at(y, x) != ' ' && seen.insert((y, x, way)) {
                    let line = LINES.iter().rposition(|line| *line == at(y, x)).expect("a line");
                    let crosses = way != DOWN && line == usize::from(UP | DOWN);
                    let goes = |to: u8| if crosses { to == way } else { line & usize::from(to) != 0 };
                    ways.extend(goes(DOWN).then_some((y + 1, x, DOWN)));
                    ways.extend((goes(LEFT) && way != RIGHT).then(|| (y, x - 1, LEFT)));
                    ways.extend((goes(RIGHT) && way != LEFT).then_some((y, x + 1, RIGHT)));
                }
            }
        }
        edges
    }

    #[test]
    fn an_empty_list_says_that_there_are_no_jobs() {
        assert_eq!(plain(&[]), "no jobs");
        assert!(dot("w", &[]).contains("no jobs") && svg("w", &[]).contains(">no jobs<"));
    }

    #[test]
    fn a_diamond_opens_and_closes() {
        let mut nodes = vec![job("extract", "succeeded", &[]), job("clean", "succeeded", &[0])];
        nodes.extend([job("validate", "processing", &[0]), job("load", "waiting", &[1, 2])]);
        nodes[3].job = "copy".to_owned();
        let rows = [
            "       ● extract",
            "       │ succeeded",
            "╭──────┴──────╮",
            "● clean       ● validate",
            "│ succeeded   │ processing",
            "╰──────┬──────╯",
            "       ● load",
            "         waiting · copy",
        ];
        assert_eq!(plain(&nodes), rows.join("\n"));
    }

    #[test]
    fn an_edge_that_skips_a_layer_goes_around_and_parts_are_apart() {
        let nodes = [job("a", "dead", &[]), job("b", "dead", &[0]), job("c", "dead", &[0, 1]), job("d", "dead", &[])];
        let rows =
            ["    ● a", "    │ dead", "╭───┴────╮", "● b      │", "│ dead   │", "╰───┬────╯", "    ● c", "      dead"];
        assert_eq!(plain(&nodes), rows.join("\n") + "\n\n● d\n  dead");
    }

    #[test]
    fn the_lines_of_any_workflow_lead_exactly_where_its_edges_do() {
        let mut seed = 7_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for round in 0..300 {
            let mut nodes = many(2 + round % 24, |_| Vec::new());
            let mut edges = BTreeSet::new();
            for (at, node) in nodes.iter_mut().enumerate().skip(1) {
                node.parents = (0..random(4)).map(|_| random(at)).collect();
                edges.extend(node.parents.iter().map(|parent| (format!("n{parent}"), format!("n{at}"))));
            }
            let picture = plain(&nodes);
            assert!(picture.starts_with('1') || edges_in(&picture) == edges, "{picture}");
            assert!(picture.lines().all(|line| !line.ends_with(' ')), "{picture}");
        }
    }

    #[test]
    fn a_picture_too_large_becomes_a_list() {
        let list = plain(&many(61, |at| if at == 60 { vec![0, 1] } else { Vec::new() }));
        assert!(list.starts_with("1  ● n0  queued\n") && list.ends_with("\n2  ● n60  queued  after: n0, n1"));
        let wide = plain(&many(31, |at| if at == 30 { (0..30).collect() } else { Vec::new() }));
        assert!(wide.ends_with("n6, n7, and 22 more"), "{wide}");
    }

    #[test]
    fn names_are_cut_to_their_width_and_rid_of_control_characters() {
        assert_eq!(cut(&"界".repeat(17)), "界".repeat(15) + "…");
        assert_eq!(cut(&"x".repeat(32)), "x".repeat(32));
        assert_eq!(cut("a\u{1b}[2J\n\u{202e}"), "a\u{fffd}[2J\u{fffd}\u{fffd}");
        assert!(cut(&"\u{301}".repeat(9_999)).len() < 999);
    }

    #[test]
    fn circles_and_parents_that_do_not_exist_are_survived() {
        let nodes = many(9, |at| vec![(at + 1) % 9, at, usize::MAX, 3, 3]);
        assert_eq!(plain(&nodes).matches('●').count(), 9);
        assert!(dot("w", &nodes).contains("n3 -> n8;") && svg("w", &nodes).matches("<g transform").count() == 9);
    }

    #[test]
    fn names_cannot_break_out_of_dot_or_svg() {
        let nodes = [job("a\"b\\ <&'>", "dead", &[])];
        assert!(dot("x\"y", &nodes).starts_with(r#"digraph "x\"y" {"#));
        assert!(dot("x\"y", &nodes).contains(r##"n0 [label="a\"b\\ <&amp;'>\ndead", fillcolor="#ef4444""##));
        assert!(svg("<w>", &nodes).contains("<title>&lt;w&gt;</title>"));
        assert!(svg("<w>", &nodes).contains(">a&quot;b\\ &lt;&amp;&#39;&gt;</text>"));
    }

    #[test]
    fn ten_thousand_jobs_take_no_time_in_any_shape() {
        let start = std::time::Instant::now();
        let fan = many(10_000, |at| if at == 9_999 { (0..9_999).collect() } else { Vec::new() });
        let chain = many(10_000, |at| if at == 0 { Vec::new() } else { vec![at - 1, at / 2, 0] });
        let single = many(10_000, |_| Vec::new());
        for nodes in [fan, chain, single] {
            assert!(svg("w", &nodes).len() > plain(&nodes).len() && !dot("w", &nodes).is_empty());
        }
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}
