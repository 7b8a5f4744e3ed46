//! Drawings of workflows: for a terminal, as DOT, as SVG.

mod dot;
mod layout;
mod svg;
mod text;

use std::collections::{BTreeSet, HashMap, HashSet};

use punctual_core::{JobId, Node, Status};
use unicode_width::UnicodeWidthStr;

pub use self::{
    dot::dot,
    svg::{embedded, svg},
    text::text,
};

/// Longer names are cut to this many columns.
const NAME_COLUMNS: usize = 32;

/// One job of the graph.
#[derive(Debug, Clone)]
pub struct GraphNode {
    /// The name of the node in the workflow.
    pub node: String,
    /// The job name; shown where it differs from `node`.
    pub job: String,
    /// The status of the job.
    pub status: Status,
    /// The indexes, in the same list, of the jobs it waits for.
    pub parents: Vec<usize>,
}

impl GraphNode {
    fn name(&self) -> String {
        cut(&self.node)
    }

    /// The text after the status in the second line: the job name, unless the node has the same name.
    fn kind(&self) -> String {
        if self.job == self.node || self.job.is_empty() { String::new() } else { format!(" · {}", cut(&self.job)) }
    }

    fn subtitle(&self) -> String {
        format!("{}{}", self.status, self.kind())
    }

    fn parents_in(&self, nodes: &[GraphNode]) -> BTreeSet<usize> {
        self.parents.iter().copied().filter(|&parent| parent < nodes.len()).collect()
    }
}

/// The jobs of a workflow as they are drawn. A callback waits for all other jobs; it is drawn after the last ones only,
/// which means the same.
pub fn picture(nodes: &[Node], is_callback: fn(&Node) -> bool) -> Vec<GraphNode> {
    let indexes: HashMap<JobId, usize> = nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let members = nodes.iter().filter(|node| !is_callback(node));
    let waited_for: HashSet<JobId> = members.flat_map(|node| node.parents.iter().copied()).collect();
    let drawn = |node: &Node| {
        let shown = |parent: &&JobId| !is_callback(node) || !waited_for.contains(parent);
        GraphNode {
            node: node.node.clone(),
            job: node.name.clone(),
            status: node.status,
            parents: node.parents.iter().filter(shown).filter_map(|parent| indexes.get(parent)).copied().collect(),
        }
    };
    nodes.iter().map(drawn).collect()
}

const fn colour(status: Status) -> &'static str {
    match status {
        Status::Scheduled => "#8b5cf6",
        Status::Queued => "#3b82f6",
        Status::Processing => "#eab308",
        Status::Succeeded => "#22c55e",
        Status::Failed | Status::Retrying => "#ea7317",
        Status::Dead => "#ef4444",
        Status::Cancelled | Status::Deleted => "#94a3b8",
        Status::Waiting => "#64748b",
    }
}

/// Replaces characters that move the cursor, change the writing direction or are invalid in XML.
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
        // Combining marks have no width, so the number of characters is limited as well.
        if shown.width() > NAME_COLUMNS || count > 4 * NAME_COLUMNS {
            shown.truncate(fits);
            while shown.width() >= NAME_COLUMNS && shown.pop().is_some() {}
            shown.push('…');
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{
        text::{DOWN, LEFT, LINES, RIGHT, UP},
        *,
    };

    fn job(node: &str, status: &str, parents: &[usize]) -> GraphNode {
        let status = status.parse().unwrap();
        GraphNode { node: node.to_owned(), job: node.to_owned(), status, parents: parents.to_vec() }
    }

    fn plain(nodes: &[GraphNode]) -> String {
        text(nodes, &|text, _| text.to_owned())
    }

    fn many(count: usize, parents: impl Fn(usize) -> Vec<usize>) -> Vec<GraphNode> {
        (0..count).map(|at| job(&format!("n{at}"), "queued", &parents(at))).collect()
    }

    /// Reads the edges from a drawing: follows the lines from every job down, never up, to the jobs at their ends.
    fn edges_in(picture: &str) -> BTreeSet<(String, String)> {
        let grid: Vec<Vec<char>> = picture.lines().map(|line| line.chars().collect()).collect();
        let at = |row: usize, column: usize| grid.get(row).and_then(|line| line.get(column)).copied().unwrap_or(' ');
        let name = |row: usize, column: usize| grid[row][column + 2..].iter().take_while(|c| **c != ' ').collect();
        let mut edges = BTreeSet::new();
        let cells = grid.iter().enumerate().flat_map(|(row, line)| (0..line.len()).map(move |column| (row, column)));
        for (row, column) in cells.filter(|&(row, column)| at(row, column) == '●') {
            let (mut paths, mut seen) = (vec![(row + 1, column, DOWN)], BTreeSet::new());
            while let Some((y, x, direction)) = paths.pop() {
                if at(y, x) == '●' {
                    edges.insert((name(row, column), name(y, x)));
                } else if at(y, x) != ' ' && seen.insert((y, x, direction)) {
                    let line = LINES.iter().rposition(|line| *line == at(y, x)).expect("a line");
                    let crosses = direction != DOWN && line == usize::from(UP | DOWN);
                    let goes = |to: u8| if crosses { to == direction } else { line & usize::from(to) != 0 };
                    paths.extend(goes(DOWN).then_some((y + 1, x, DOWN)));
                    paths.extend((goes(LEFT) && direction != RIGHT).then(|| (y, x - 1, LEFT)));
                    paths.extend((goes(RIGHT) && direction != LEFT).then_some((y, x + 1, RIGHT)));
                }
            }
        }
        edges
    }

    #[test]
    fn an_empty_graph_says_that_there_are_no_jobs() {
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
    fn the_lines_of_a_drawing_match_the_edges_of_the_workflow() {
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
    fn a_large_graph_is_shown_as_a_list() {
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
    fn cycles_and_missing_parents_are_drawn_without_error() {
        let nodes = many(9, |at| vec![(at + 1) % 9, at, usize::MAX, 3, 3]);
        assert_eq!(plain(&nodes).matches('●').count(), 9);
        assert!(dot("w", &nodes).contains("n3 -> n8;") && svg("w", &nodes).matches("<g transform").count() == 9);
    }

    #[test]
    fn names_are_escaped_in_dot_and_svg() {
        let nodes = [job("a\"b\\ <&'>", "dead", &[])];
        assert!(dot("x\"y", &nodes).starts_with(r#"digraph "x\"y" {"#));
        assert!(dot("x\"y", &nodes).contains(r##"n0 [label="a\"b\\ <&amp;'>\ndead", fillcolor="#ef4444""##));
        assert!(svg("<w>", &nodes).contains("<title>&lt;w&gt;</title>"));
        assert!(svg("<w>", &nodes).contains(">a&quot;b\\ &lt;&amp;&#39;&gt;</text>"));
    }

    #[test]
    fn a_graph_on_a_page_links_to_its_jobs_and_marks_its_root() {
        let nodes = [job("b", "dead", &[1]), job("a", "dead", &[])];
        let drawn = embedded("w", &nodes, &|index| format!("/jobs/{index}"));
        assert!(drawn.contains("role=\"group\"") && drawn.contains("<a href=\"/jobs/0\">"), "{drawn}");
        assert_eq!(drawn.matches("class=\"root\"").count(), 1, "{drawn}");
        assert!(drawn.contains("class=\"root\"><title>a</title>"), "{drawn}");
        assert!(svg("w", &nodes).contains("role=\"img\"") && !svg("w", &nodes).contains("class=\"root\""));
    }

    #[test]
    fn ten_thousand_jobs_are_drawn_in_seconds_in_any_shape() {
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
