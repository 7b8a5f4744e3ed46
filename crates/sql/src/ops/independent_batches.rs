//! Splits a list into parts whose items can be processed together.

use std::{collections::HashSet, hash::Hash};

/// Splits a list into consecutive parts, in each of which no two items share a mark. `is_apart` passes the marks of an
/// item on, and returns whether all of them were new.
pub(crate) fn independent_batches<'t, T, M: Eq + Hash>(
    items: &'t [T],
    is_apart: impl Fn(&'t T, &mut dyn FnMut(M) -> bool) -> bool,
) -> Vec<&'t [T]> {
    let (mut parts, mut seen, mut begin) = (Vec::new(), HashSet::new(), 0);
    for (place, item) in items.iter().enumerate() {
        if !is_apart(item, &mut |mark| seen.insert(mark)) {
            parts.push(&items[begin..place]);
            (begin, seen) = (place, HashSet::new());
            is_apart(item, &mut |mark| seen.insert(mark));
        }
    }
    parts.push(&items[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_has_the_same_twice() {
        let parts = independent_batches(&[1, 2, 3, 2, 2, 4], |number, is_new| is_new(*number));
        assert_eq!(parts, [&[1, 2, 3][..], &[2], &[2, 4]]);
        assert_eq!(independent_batches(&[0; 0], |number, is_new| is_new(*number)), [&[0; 0]]);
    }
}
