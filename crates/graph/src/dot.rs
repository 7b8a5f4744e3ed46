//! The graph as DOT, for Graphviz.

use punctual_core::Status;

use crate::{GraphNode, clean, colour};

/// Renders the graph as DOT, for Graphviz.
pub fn dot(name: &str, nodes: &[GraphNode]) -> String {
    let mut out = format!("digraph \"{}\" {{\n  rankdir=LR;\n", dot_escaped(name));
    out += "  node [shape=box, style=\"rounded,filled\", color=transparent, fontname=Helvetica];\n";
    out += "  edge [color=\"#94a3b8\", arrowsize=0.7];\n";
    if nodes.is_empty() {
        out += "  label=\"no jobs\";\n";
    }
    for (at, node) in nodes.iter().enumerate() {
        // Graphviz interprets entities in labels, so an ampersand must be escaped as an entity.
        let label = format!("{}\\n{}", dot_escaped(&node.node), dot_escaped(&node.subtitle())).replace('&', "&amp;");
        let ink = if node.status == Status::Waiting { "#ffffff" } else { "#0f172a" };
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
