//! Links between the pages of the documentation: each has a target, and each page is in the table of contents.

use std::collections::{BTreeMap, BTreeSet};

/// The folder of the book, outside of which its pages may not link: the site has only this folder.
const BOOK: &str = "docs/";
const CONTENTS: &str = "docs/SUMMARY.md";
/// The addresses of files and folders of this repository.
const REPOSITORY: [&str; 2] =
    ["https://github.com/punctual-rs/punctual/blob/main/", "https://github.com/punctual-rs/punctual/tree/main/"];

/// Describes links without a target, and pages that the table of contents does not list. The pages are given by path
/// and text; `exists` says whether the repository has a file or folder.
pub(crate) fn broken<'s>(
    pages: impl Iterator<Item = (&'s str, &'s str)>,
    exists: impl Fn(&str) -> bool,
) -> Vec<String> {
    let pages: BTreeMap<&str, &str> = pages.collect();
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for (path, text) in &pages {
        for (number, target) in links(text) {
            let file = match resolve(path, &target) {
                Target::Elsewhere => continue,
                Target::Repository(file) if exists(&file) => continue,
                Target::Page(file, _) if path.starts_with(BOOK) && !file.starts_with(BOOK) => {
                    problems.push(format!("{path}:{number}: {target} leaves {BOOK}: link to {}{file}", REPOSITORY[0]));
                    continue;
                }
                Target::Page(file, anchor) if exists(&file) => {
                    let known = pages.get(file.as_str()).map(|page| anchors(page));
                    if let (Some(anchor), Some(known)) = (anchor, known)
                        && !known.contains(&anchor)
                    {
                        problems.push(format!("{path}:{number}: {file} has no heading #{anchor}"));
                    }
                    file
                }
                Target::Repository(file) | Target::Page(file, _) => {
                    problems.push(format!("{path}:{number}: the link {target} leads to {file}, which does not exist"));
                    continue;
                }
            };
            if *path == CONTENTS {
                listed.insert(file);
            }
        }
    }
    let unlisted = pages.keys().filter(|path| path.starts_with(BOOK) && **path != CONTENTS && !listed.contains(**path));
    problems.extend(unlisted.map(|path| format!("{path}: {CONTENTS} does not list this page")));
    problems
}

/// What a link leads to.
enum Target {
    /// Another site.
    Elsewhere,
    /// A file or folder, by its address on the repository's site.
    Repository(String),
    /// A file of this repository, and a heading in it.
    Page(String, Option<String>),
}

fn resolve(from: &str, target: &str) -> Target {
    if let Some(file) = REPOSITORY.iter().find_map(|prefix| target.strip_prefix(prefix)) {
        return Target::Repository(file.split('#').next().unwrap_or_default().to_owned());
    }
    if target.contains("://") || target.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    let (file, anchor) =
        target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor.to_owned())));
    if file.is_empty() {
        return Target::Page(from.to_owned(), anchor);
    }
    let mut folders: Vec<&str> = from.split('/').collect();
    folders.pop();
    for part in file.split('/') {
        match part {
            ".." => {
                folders.pop();
            }
            "." | "" => {}
            part => folders.push(part),
        }
    }
    Target::Page(folders.join("/"), anchor)
}

/// The links of a page, with their line numbers; code has none.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for start in ["](", "src=\"", "srcset=\"", "href=\""] {
            for after in line.split(start).skip(1) {
                let target = after.split([')', '"', ' ']).next().unwrap_or_default();
                found.push((number, target.trim_matches(['<', '>']).to_owned()));
            }
        }
    }
    found
}

/// The lines of a page outside of code blocks and comments, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut is_code, mut is_comment) = (false, false);
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        is_comment |= line.contains("<!--");
        let is_prose = !is_code && !is_fence && !is_comment;
        is_comment &= !line.contains("-->");
        is_prose.then_some((index + 1, line))
    })
}

fn without_code(line: &str) -> String {
    // A link's text may be code, so only what is in backticks goes.
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The anchors of a page's headings, as the repository's site and the book form them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let headings = prose(text)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    for heading in headings {
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let anchor: String = heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
        let same = (1..).map(|count| format!("{anchor}-{count}")).find(|numbered| !found.contains(numbered));
        let is_new = !found.contains(&anchor);
        found.extend(if is_new { Some(anchor) } else { same });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_needs_its_page_and_its_heading() {
        let pages = [
            ("README.md", "# A\n[b](docs/b.md#two-words) [c](docs/c.md) `[d](d.md)` [web](https://example.com/x)"),
            ("docs/SUMMARY.md", "[b](b.md)"),
            ("docs/b.md", "# B\n## Two `words`\n[up](../README.md)\n[here](#two-word)\n```\n[code](none.md)\n```"),
            ("docs/e.md", "# E\n[b](b.md#b)"),
        ];
        let names: Vec<&str> = pages.iter().map(|(path, _)| *path).collect();
        let problems = broken(pages.into_iter(), |path| names.contains(&path));
        let expected = [
            "README.md:2: the link docs/c.md leads to docs/c.md, which does not exist",
            "docs/b.md:3: ../README.md leaves docs/: link to \
             https://github.com/punctual-rs/punctual/blob/main/README.md",
            "docs/b.md:4: docs/b.md has no heading #two-word",
            "docs/e.md: docs/SUMMARY.md does not list this page",
        ];
        assert_eq!(problems, expected);
    }
}
