//! Files of SQL statements: each statement is a section that begins with a line `-- name: …`.

const HEAD: &[u8] = b"-- name: ";

/// The text of a section; names are compared without regard to case. Evaluated at compile time: an unknown name is a
/// compile error.
#[allow(clippy::panic)]
pub(crate) const fn section(file: &'static str, name: &str) -> &'static str {
    let bytes = file.as_bytes();
    let (mut line, mut start) = (0, None);
    while line < bytes.len() {
        let end = line_end(bytes, line);
        match start {
            Some(start) if begins_with(bytes, line, HEAD) => return text(file, start, line),
            None if begins_with(bytes, line, HEAD) && is_name(bytes, line + HEAD.len(), end, name.as_bytes()) => {
                start = Some(end);
            }
            _ => {}
        }
        line = end;
    }
    match start {
        Some(start) => text(file, start, bytes.len()),
        None => panic!("no section of this name"),
    }
}

const fn text(file: &'static str, start: usize, end: usize) -> &'static str {
    file.split_at(end).0.split_at(start).1.trim_ascii_end()
}

/// The offset at which the next line begins.
const fn line_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        at += 1;
        if bytes[at - 1] == b'\n' {
            break;
        }
    }
    at
}

const fn begins_with(bytes: &[u8], at: usize, word: &[u8]) -> bool {
    let mut n = 0;
    while n < word.len() {
        if at + n >= bytes.len() || bytes[at + n] != word[n] {
            return false;
        }
        n += 1;
    }
    true
}

const fn is_name(bytes: &[u8], at: usize, end: usize, name: &[u8]) -> bool {
    if end - at != name.len() + 1 {
        return false;
    }
    let mut n = 0;
    while n < name.len() {
        if !bytes[at + n].eq_ignore_ascii_case(&name[n]) {
            return false;
        }
        n += 1;
    }
    true
}

/// Declares the texts of an engine's statements, given its files, each with the names of its sections. The files are in
/// the folder `sql` beside the file that uses this.
macro_rules! texts {
    ($($file:literal { $($name:ident)* })*) => {
        /// Every statement with its name.
        pub(crate) const ALL: &[(&str, &str)] = &[$($((
            stringify!($name),
            $crate::sections::section(include_str!(concat!("sql/", $file, ".sql")), stringify!($name)),
        ),)*)*];

        /// The files, each with the names of its statements.
        #[cfg(test)]
        pub(crate) const FILES: &[(&str, &[&str])] =
            &[$((include_str!(concat!("sql/", $file, ".sql")), &[$(stringify!($name)),*])),*];
    };
}
pub(crate) use texts;

/// Fails if the sections of a file differ from the listed names, or are in another order.
#[cfg(test)]
pub(crate) fn assert_all_listed(file: &str, names: &[&str]) {
    let sections = file.lines().filter_map(|line| line.strip_prefix("-- name: "));
    let names = names.iter().map(|name| name.to_ascii_lowercase());
    assert_eq!(sections.collect::<Vec<_>>(), names.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- name: one\n-- The first.\nselect 1\n\n-- name: other\nselect 2\n";

    #[test]
    fn a_section_ends_where_the_next_begins() {
        assert_eq!(section(FILE, "ONE"), "-- The first.\nselect 1");
        assert_eq!(section(FILE, "other"), "select 2");
        assert_all_listed(FILE, &["ONE", "OTHER"]);
    }
}
