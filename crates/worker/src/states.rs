//! The states that handlers take, by type.

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
};

use punctual_core::Invalid;

/// The states of a worker.
pub(crate) struct States {
    by_type: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    /// A type of which there was more than one.
    repeated: Option<&'static str>,
}

impl Default for States {
    /// Handlers without a state take `()`.
    fn default() -> Self {
        let mut states = Self { by_type: BTreeMap::new(), repeated: None };
        states.add(());
        states
    }
}

impl States {
    pub(crate) fn add<S: Clone + Send + Sync + 'static>(&mut self, state: S) {
        if self.by_type.insert(TypeId::of::<S>(), Box::new(state)).is_some() {
            self.repeated = Some(type_name::<S>());
        }
    }

    /// Handlers find their state by its type, so there is one of each type.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        match self.repeated {
            Some(name) => Err(Invalid::new("state", format!("two states of the type `{name}`; expected one per type"))),
            None => Ok(()),
        }
    }

    /// The state of this type, for the handler of this job.
    pub(crate) fn of<S: Clone + Send + Sync + 'static>(&self, job: &str) -> Result<S, Invalid> {
        let state = self.by_type.get(&TypeId::of::<S>()).and_then(|state| state.downcast_ref::<S>());
        state.cloned().ok_or_else(|| {
            let name = type_name::<S>();
            Invalid::new("state", format!("the handler of `{job}` takes a `{name}`; add one with `.state(…)`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_by_its_type() {
        let mut states = States::default();
        states.add(7_u32);
        states.add("text");
        assert_eq!(states.of("a"), Ok(7_u32));
        assert_eq!(states.of("a"), Ok("text"));
        assert_eq!(states.of("a"), Ok(()));
        let missing = states.of::<u64>("a").unwrap_err().to_string();
        assert_eq!(missing, "state: the handler of `a` takes a `u64`; add one with `.state(…)`");
        assert_eq!(states.check(), Ok(()));
        states.add(8_u32);
        let twice = states.check().unwrap_err().to_string();
        assert_eq!(twice, "state: two states of the type `u32`; expected one per type");
    }
}
