//! `llms.txt`: the pages with their first sentences, for programs that read documentation.

use std::fmt::Write as _;

use anyhow::{Context, Result};

const HEAD: &str = "# Punctual

> A durable job scheduler in Rust. Jobs are stored in SQLite, PostgreSQL or SQL Server; workers run them in your own
> process, in supervised processes, as programs in any language, or on other machines over HTTP.

";

/// Lists the pages of the summary; `read` returns the text of a page.
pub(super) fn page(summary: &str, read: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut page = HEAD.to_owned();
    for line in summary.lines().skip(1) {
        if let Some(part) = line.strip_prefix("# ") {
            let _ = write!(page, "\n## {part}\n\n");
        }
        let link = line.trim_start_matches([' ', '-']).strip_prefix('[').and_then(|link| link.split_once("]("));
        let Some((title, path)) = link.and_then(|(title, rest)| Some((title, rest.strip_suffix(')')?))) else {
            continue;
        };
        // Decision records are for people who change Punctual; their list is one page.
        if path.starts_with("adr/") {
            continue;
        }
        let sentence = first_sentence(&read(path)?).with_context(|| format!("docs/{path} has no sentence"))?;
        let _ = writeln!(page, "- [{title}]({path}): {sentence}");
    }
    Ok(page)
}

/// The first sentence below the title, without links.
fn first_sentence(text: &str) -> Option<String> {
    let is_prose = |line: &&str| line.starts_with(|c: char| c.is_alphanumeric() || "`[".contains(c));
    let mut is_code = false;
    let outside_of_code = |line: &&str| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    let lines = text.lines().skip(1).filter(outside_of_code).skip_while(|line| !is_prose(line));
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let mut paragraph = lines.join(" ");
    while let Some(start) = paragraph.find("](") {
        let end = start + paragraph[start..].find(')')?;
        let open = paragraph[..start].rfind('[')?;
        paragraph = format!("{}{}{}", &paragraph[..open], &paragraph[open + 1..start], &paragraph[end + 1..]);
    }
    let end = paragraph.find(". ").or_else(|| paragraph.find(": ")).unwrap_or(paragraph.len());
    let sentence = paragraph[..end].trim_end_matches(['.', ':']);
    (!sentence.is_empty()).then(|| format!("{sentence}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_has_no_links() {
        let page = "# Queues\n\n```sh\ncode\n```\n\nA [queue](queues.md) has\n[limits](limits.md#a). More.\n";
        assert_eq!(first_sentence(page).as_deref(), Some("A queue has limits."));
        assert_eq!(first_sentence("# Only a title\n"), None);
    }
}
