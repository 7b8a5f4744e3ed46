//! What jobs are found by.

use punctual_core::Spec;

/// What a job is found by besides its id, name and status; few jobs have any.
pub(crate) fn labels(spec: &Spec) -> impl Iterator<Item = (&'static str, &str)> {
    let user = spec.user_id.iter().map(|user| ("user", user.as_str()));
    let correlation = spec.correlation_id.iter().map(|id| ("correlation", id.as_str()));
    let tags = spec.options.tags.iter().map(|tag| ("tag", tag.as_str()));
    let schedule = spec.options.occurrence.iter().map(|occurrence| ("schedule", occurrence.schedule.as_str()));
    user.chain(correlation).chain(tags).chain(schedule)
}
