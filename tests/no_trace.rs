//! Without a trace subscriber, tracing costs a job nothing.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use punctual::trace;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: delegates to the system's allocator; counting allocates no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn to_check_for_a_trace_allocates_nothing_if_there_is_none() {
    assert_eq!(trace::current(), None);
    let before = ALLOCATIONS.get();
    for _ in 0..1_000 {
        assert_eq!(trace::current(), None);
    }
    assert_eq!(ALLOCATIONS.get(), before);
}
