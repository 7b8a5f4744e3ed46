//! The commands that manage things are plural nouns, each with `list`.

use crate::shell::Shell;

#[test]
fn every_noun_has_a_list() {
    let shell = Shell::with_store();
    for noun in ["jobs", "schedules", "workflows", "queues", "workers", "locks", "tokens"] {
        let list = shell.json(&[noun, "list"]);
        assert!(list[noun].is_array(), "{noun}: {list}");
        let usage = format!("Usage: punctual {noun} [OPTIONS] <COMMAND>");
        assert!(shell.ok(&[noun, "--help"]).contains(&usage), "{noun}");
    }
}

#[test]
fn a_lock_that_is_not_held_is_not_released() {
    let (code, message) = Shell::with_store().fails(&["locks", "release", "x"]);
    assert!(code == 3 && message.contains("lock x is not held; `punctual locks list`"), "{code}: {message}");
}
