//! Circles of modules: files of a crate that use each other, directly or by way of others.

use std::collections::{BTreeMap, BTreeSet};

/// A module, by its path within its crate; the crate's root is empty.
type Module = Vec<String>;

/// The files of a crate, given by their paths below `src` and their texts, that are part of a circle; one list per
/// circle.
///
/// A module that declares others may re-export them: what it uses of its own descendants does not count. Neither do
/// modules of tests.
pub(crate) fn circles<'s>(files: impl Iterator<Item = (&'s str, &'s str)>) -> Vec<Vec<String>> {
    let texts: BTreeMap<Module, &str> = files.filter_map(|(path, text)| Some((module(path)?, text))).collect();
    let used = |module: &Module, text: &str| -> BTreeSet<Module> {
        let used = paths(&code(text)).into_iter().filter_map(|path| resolve(&path, module, &texts));
        used.filter(|used| !used.starts_with(module)).collect()
    };
    let uses = texts.iter().map(|(module, text)| (module, used(module, text))).collect::<BTreeMap<_, _>>();
    let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|module| (*module, reachable(module, &uses))).collect();
    let circle = |module: &&Module| -> Vec<String> {
        let together = reachable[module].iter().filter(|other| reachable[*other].contains(module));
        together.map(|module| module.join("/")).collect()
    };
    let circles: BTreeSet<Vec<String>> = uses.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
    circles.into_iter().collect()
}

fn reachable<'m>(from: &Module, uses: &'m BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<&'m Module> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in uses.get(module).into_iter().flatten() {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

/// The module of a file; none if it holds tests.
fn module(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let mut module: Module = path.split('/').map(str::to_owned).collect();
    match module.last()?.as_str() {
        "tests" => return None,
        "mod" | "lib" | "main" => drop(module.pop()),
        _ => {}
    }
    Some(module)
}

/// A file without comments, and without the modules of tests at its end; a module that is only declared may precede
/// code.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines.collect::<Vec<_>>().join("\n")
}

/// All paths of a file that may name a module: those of `use`, and those that begin with `crate` or `super`.
fn paths(code: &str) -> Vec<String> {
    let (mut paths, mut other) = (Vec::new(), String::new());
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let (before, after) = (&rest[..at], &rest[at + 4..]);
        let end = after.find(';').unwrap_or(after.len());
        other.push_str(before);
        if before.ends_with([' ', '\n']) || before.is_empty() {
            expand("", &after[..end], &mut paths);
        }
        rest = &after[end..];
    }
    other.push_str(rest);
    let whole = other.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    paths.extend(
        whole.filter(|path| ["crate::", "super::"].iter().any(|start| path.starts_with(start))).map(str::to_owned),
    );
    paths
}

/// The paths of a tree of `use`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, branches)) = tree.split_once('{') else {
        // After the last comma there is nothing.
        if tree.is_empty() {
            return;
        }
        paths.push(format!("{prefix}{}", tree.split(" as ").next().unwrap_or_default().trim()));
        return;
    };
    let prefix = format!("{prefix}{head}");
    let (mut depth, mut start) = (0, 0);
    for (at, c) in branches.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                expand(&prefix, &branches[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module that a path names, or to which the named item belongs.
fn resolve(path: &str, from: &Module, modules: &BTreeMap<Module, &str>) -> Option<Module> {
    let mut names = path.split("::").peekable();
    let mut module = match names.peek()? {
        &"crate" => Module::new(),
        _ => from.clone(),
    };
    while let Some(name) = names.next_if(|name| ["crate", "self", "super"].contains(name)) {
        if name == "super" {
            module.pop();
        }
    }
    let mut found =
        path.starts_with("crate").then(Module::new).or_else(|| path.starts_with("super").then(|| module.clone()));
    for name in names {
        module.push(name.to_owned());
        if !modules.contains_key(&module) {
            break;
        }
        found = Some(module.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::Thing;"),
            ("a/mod.rs", "mod inner;\n#[cfg(test)]\nmod tests;\nuse crate::{b::{self, B}, c};\npub use inner::Inner;"),
            ("a/inner.rs", "use super::Thing;\n// use crate::c::D;\n#[cfg(test)]\nmod tests { use crate::b; }"),
            ("b.rs", "fn b(a: &crate::a::Inner) {}"),
            ("c/mod.rs", "use crate::d::inner::D;\nmod inner;"),
            ("c/inner.rs", "use super::{super::e::E, Other};\nfn f() -> super::super::e::F {}"),
            ("d/mod.rs", "mod inner;\nuse crate::e::E;"),
            ("d/inner.rs", "use super::super::e::E;"),
            ("e.rs", "use crate::d::inner::D;"),
        ];
        assert_eq!(circles(files.into_iter()), [["a", "b"], ["d/inner", "e"]]);
    }

    #[test]
    fn a_tree_of_paths_is_expanded() {
        assert_eq!(paths("use a::{b, c::{d as e, f}, g};\npub use h;"), ["a::b", "a::c::d", "a::c::f", "a::g", "h"]);
    }
}
