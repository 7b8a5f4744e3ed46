//! `jobs show` and `jobs explain` give the reason of a death.

use crate::shell::Shell;

#[test]
fn a_job_that_its_policy_does_not_retry_has_not_spent_its_attempts() {
    let shell = Shell::new();
    let id = shell.ok(&["enqueue", "fail", "{}", "--retry", "none"]).trim().to_owned();
    shell.ok(&["work", "--until-empty"]);
    for command in ["show", "explain"] {
        let text = shell.ok(&["jobs", command, &id]);
        assert!(text.contains(", after 1 attempt, its retry policy allows no retries"), "{command}: {text}");
    }
}
