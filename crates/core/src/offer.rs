//! Offers to a receiver that may have disconnected meanwhile.

/// A value that is returned to its source unless the receiver takes it: sending it does not prove that it was received.
///
/// ```
/// use punctual_core::Offer;
/// use std::sync::{Arc, Mutex};
/// let returned = Arc::new(Mutex::new(Vec::new()));
/// let back = |returned: &Arc<Mutex<Vec<u8>>>| {
///     let returned = returned.clone();
///     move |thing| returned.lock().unwrap().push(thing)
/// };
/// assert_eq!(Offer::new(1, back(&returned)).take(), Some(1));
/// drop(Offer::new(2, back(&returned)));
/// assert_eq!(*returned.lock().unwrap(), [2]);
/// ```
pub struct Offer<T>(Option<(T, Back<T>)>);

type Back<T> = Box<dyn FnOnce(T) + Send>;

impl<T> Offer<T> {
    /// Offers a value; `back` receives it if it is not taken.
    pub fn new(thing: T, back: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Some((thing, Box::new(back))))
    }

    /// Takes the value; nothing if it was taken before.
    pub fn take(mut self) -> Option<T> {
        self.0.take().map(|(thing, _)| thing)
    }
}

impl<T> Drop for Offer<T> {
    fn drop(&mut self) {
        if let Some((thing, back)) = self.0.take() {
            back(thing);
        }
    }
}

impl<T> std::fmt::Debug for Offer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Offer")
    }
}
