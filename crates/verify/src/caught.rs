//! Runs checks that panic when they fail, and returns the panic messages.

use std::{any::Any, cell::RefCell, panic, sync::Once, time::Duration};

use tokio::{runtime, task, time};

/// Maximum duration of a check.
const MAX_TIME: Duration = Duration::from_secs(300);

thread_local! {
    /// The message of this thread's last panic, while a check runs.
    static PANIC_MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a check on a thread and a runtime of its own.
pub(crate) async fn caught<T: Send + 'static, F: Future<Output = T>>(
    check: impl FnOnce() -> F + Send + 'static,
) -> Result<T, String> {
    listen_to_panics();
    let on_thread = move || {
        PANIC_MESSAGE.set(Some(String::new()));
        let ran = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
            runtime.block_on(async {
                let checked = time::timeout(MAX_TIME, check()).await;
                checked.map_err(|_| format!("did not end within {} s", MAX_TIME.as_secs()))
            })
        }));
        let panic_message = PANIC_MESSAGE.take().unwrap_or_default();
        ran.unwrap_or(Err(panic_message))
    };
    task::spawn_blocking(on_thread).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Installs a panic hook that keeps panics of checks off the terminal.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let expected = PANIC_MESSAGE.with_borrow_mut(|panic_message| {
                let Some(panic_message) = panic_message else { return false };
                let location = info
                    .location()
                    .map_or_else(String::new, |location| format!(" ({}:{})", location.file(), location.line()));
                *panic_message = format!("{}{location}", message(info.payload()));
                true
            });
            if !expected {
                usual(info);
            }
        }));
    });
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_that_panics_is_an_error_with_its_message_and_location() {
        assert_eq!(caught(|| async { 7 }).await, Ok(7));
        let failed = caught(|| async { assert_eq!(1 + 1, 3, "arithmetic") }).await.map(drop).err().unwrap_or_default();
        assert!(failed.contains("arithmetic") && failed.contains("caught.rs"), "{failed}");
    }
}
