//! What is offered to somebody who may have gone meanwhile.

/// Something that goes back if nobody takes it: neither its sending nor its arrival proves that anybody has it.
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
    /// Offers a thing; `back` gets it if nobody takes it.
    pub fn new(thing: T, back: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Some((thing, Box::new(back))))
    }

    /// Takes it. It is there unless it was taken before.
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
