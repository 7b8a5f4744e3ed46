//! The level of a queued job within its lane.

/// The level of a queued job within its queue and name: its priority, plus 16 if it is a
/// [suspect](punctual_core::Job::is_suspect). A claim that takes no suspects, or only suspects, thus reads one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Level(u8);

impl Level {
    /// Greater than any priority.
    const SUSPECTS: u8 = 16;

    pub(crate) const fn of(priority: u8, suspect: bool) -> Self {
        Self(if suspect { priority + Self::SUSPECTS } else { priority })
    }

    pub(crate) const fn priority(self) -> u8 {
        self.0 % Self::SUSPECTS
    }

    pub(crate) const fn is_suspect(self) -> bool {
        self.0 >= Self::SUSPECTS
    }

    /// The first and last level of suspects, or of jobs that are no suspects.
    pub(crate) const fn range(suspects: bool) -> (Self, Self) {
        let Self(first) = Self::of(0, suspects);
        (Self(first), Self(first + Self::SUSPECTS - 1))
    }

    /// Conversion to and from a number.
    #[cfg(feature = "postgres")]
    pub(crate) const fn number(self) -> i16 {
        self.0 as i16
    }

    #[cfg(feature = "postgres")]
    pub(crate) const fn from_number(number: i16) -> Self {
        Self(number as u8)
    }

    /// The level of the same job after it has become a suspect.
    pub(crate) const fn suspected(self) -> Self {
        Self::of(self.priority(), true)
    }
}

mod values {
    use super::Level;
    use crate::db::{FromValue, ToValue, Value};

    impl ToValue for Level {
        fn to_value(&self) -> Value<'_> {
            self.0.to_value()
        }
    }

    impl FromValue<'_> for Level {
        fn from_value(value: Value<'_>) -> Option<Self> {
            u8::from_value(value).map(Self)
        }
    }
}
