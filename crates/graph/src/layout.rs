//! The layout: jobs in layers, each after the jobs it waits for, with few crossings and bends, found in several passes.

use std::collections::BTreeMap;

use crate::GraphNode;

/// With more jobs, edges and bends than this in total, the points are stacked simply instead of being refined.
const FINE_WORK: usize = 4_000;
/// Number of passes over the layers, alternately down and up, to reduce crossings and to align points.
const SWEEPS: usize = 24;

/// The space that a point needs before and after its position in a layer.
pub(crate) type Room<'a> = &'a dyn Fn(usize) -> (i64, i64);

/// The layered graph. The first points are the jobs; the others are bends of edges that skip layers.
pub(crate) struct Layout {
    pub(crate) layer: Vec<usize>,
    pub(crate) above: Vec<Vec<usize>>,
    pub(crate) below: Vec<Vec<usize>>,
    /// The connected components: each a list of layers, each a list of points in order.
    pub(crate) parts: Vec<Vec<Vec<usize>>>,
    pub(crate) fine: bool,
}

impl Layout {
    pub(crate) fn of(nodes: &[GraphNode]) -> Layout {
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

    /// Connects neighbouring layers. Jobs of one layer with the same children share the bends of their long edges, and
    /// so do the edges of one job: one line instead of several parallel ones.
    pub(crate) fn connect(&mut self, children: &[Vec<usize>]) {
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

    pub(crate) fn bend(&mut self, from: &[usize], layer: usize) -> usize {
        let bend = self.layer.len();
        self.layer.push(layer);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        self.link(from, bend);
        bend
    }

    pub(crate) fn link(&mut self, from: &[usize], to: usize) {
        from.iter().for_each(|&point| self.below[point].push(to));
        self.above[to].extend(from);
    }

    pub(crate) fn divide(&mut self) {
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

    /// Orders every layer by the mean position of the neighbours, down and up, and keeps the order with the fewest
    /// crossings.
    pub(crate) fn untangle(&mut self) {
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

    pub(crate) fn crossings(&self, part: &[Vec<usize>], rank: &[usize]) -> usize {
        let in_gap = |layer: &Vec<usize>| {
            let lines = |&from: &usize| self.below[from].iter().map(move |&to| (rank[from], rank[to]));
            let lines: Vec<(usize, usize)> = layer.iter().flat_map(lines).collect();
            let crossed =
                |(at, a): (usize, &(usize, usize))| lines[at..].iter().filter(|b| a.0 < b.0 && a.1 > b.1).count();
            lines.iter().enumerate().map(crossed).sum::<usize>()
        };
        part.iter().map(in_gap).sum()
    }

    /// The position of each point within its layer; every component starts at 0.
    pub(crate) fn positions(&self, room: Room) -> Vec<i64> {
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

    /// Moves the points of each layer towards their neighbours, and keeps the positions with the straightest lines.
    pub(crate) fn align(&self, part: &[Vec<usize>], room: Room, at: &mut [i64]) {
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

    /// Moves single points slightly if that straightens a small bend.
    pub(crate) fn nudge(&self, layer: &[usize], room: Room, at: &mut [i64]) {
        for (index, &point) in layer.iter().enumerate() {
            let (before, after) = (layer[..index].last(), layer.get(index + 1));
            let start = before.map_or(i64::MIN, |&other| at[other] + room(other).1 + room(point).0);
            let end = after.map_or(i64::MAX, |&other| at[other] - room(other).0 - room(point).1);
            let now = at[point];
            let positions = (now - 3..=now + 3).filter(|position| (start..=end).contains(position));
            let effort = |position: i64| if position == now { 0 } else { 10 + (position - now).abs() };
            at[point] =
                positions.min_by_key(|&position| self.bending(point, position, at) + effort(position)).unwrap_or(now);
        }
    }

    /// The cost of the bends of a point's lines at this position. Small bends look worst, and cost extra.
    pub(crate) fn bending(&self, point: usize, position: i64, at: &[i64]) -> i64 {
        let bend = |&other: &usize| match (at[other] - position).abs() {
            0 => 0,
            off @ 1..=3 => off + 60,
            off => off + 40,
        };
        self.above[point].iter().chain(&self.below[point]).map(bend).sum()
    }
}

/// The layer of each job, by its longest path from a start, and its children. Edges that close a cycle are left out.
pub(crate) fn layered(nodes: &[GraphNode]) -> (Vec<usize>, Vec<Vec<usize>>) {
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
    // If no job is ready, the remaining jobs form a cycle, which is broken at the first of them.
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
    layer.iter().enumerate().for_each(|(index, &point)| rank[point] = index);
}

fn mean_rank(point: usize, near: &[usize], rank: &[usize]) -> usize {
    let sum: usize = near.iter().map(|&other| rank[other] * 1_000).sum();
    sum.checked_div(near.len()).unwrap_or(rank[point] * 1_000)
}

/// The median. Target positions round down and blocks round up, so that branches end in the column where they began.
fn middle(sorted: &[i64], round_up: bool) -> Option<i64> {
    let (low, high) = (sorted.get(sorted.len().saturating_sub(1) / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high + i64::from(round_up)).div_euclid(2))
}

/// Places the points of a layer next to each other, centred at 0.
fn stack(layer: &[usize], room: Room, at: &mut [i64]) {
    let total: i64 = layer.iter().map(|&point| room(point).0 + room(point).1).sum();
    let mut edge = -total / 2;
    for &point in layer {
        at[point] = edge + room(point).0;
        edge = at[point] + room(point).1;
    }
}

/// Places the points of a layer as near to their target positions as their order and room allow. Points that would
/// overlap form a block at the median of their targets, so that most edges stay straight.
fn settle(layer: &[usize], room: Room, at: &mut [i64], target: &dyn Fn(usize, &[i64]) -> i64) {
    let (mut blocks, mut offsets) = (Vec::<Vec<i64>>::new(), Vec::new());
    let mut end = 0;
    for &point in layer {
        let offset = end + room(point).0;
        end = offset + room(point).1;
        offsets.push(offset);
        let mut block = vec![target(point, at) - offset];
        while let Some(mut before) = blocks.pop_if(|before| middle(before, true) > middle(&block, true)) {
            before.append(&mut block);
            before.sort();
            block = before;
        }
        blocks.push(block);
    }
    let block_positions = blocks.iter().flat_map(|block| vec![middle(block, true).unwrap_or(0); block.len()]);
    for ((&point, offset), position) in layer.iter().zip(offsets).zip(block_positions) {
        at[point] = position + offset;
    }
}
