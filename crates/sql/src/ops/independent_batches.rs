//! Splits a list into batches whose items can be processed together.

use std::{collections::HashSet, hash::Hash};

/// Splits a list into consecutive batches, in each of which no two items share a property. `is_independent` passes the
/// properties of an item on, and returns whether all of them were new.
pub(crate) fn independent_batches<'t, T, P: Eq + Hash>(
    items: &'t [T],
    is_independent: impl Fn(&'t T, &mut dyn FnMut(P) -> bool) -> bool,
) -> Vec<&'t [T]> {
    let (mut batches, mut seen, mut begin) = (Vec::new(), HashSet::new(), 0);
    for (index, item) in items.iter().enumerate() {
        if !is_independent(item, &mut |property| seen.insert(property)) {
            batches.push(&items[begin..index]);
            (begin, seen) = (index, HashSet::new());
            is_independent(item, &mut |property| seen.insert(property));
        }
    }
    batches.push(&items[begin..]);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_batch_has_two_items_that_share_a_property() {
        let batches = independent_batches(&[1, 2, 3, 2, 2, 4], |number, is_new| is_new(*number));
        assert_eq!(batches, [&[1, 2, 3][..], &[2], &[2, 4]]);
        assert_eq!(independent_batches(&[0; 0], |number, is_new| is_new(*number)), [&[0; 0]]);
    }
}
