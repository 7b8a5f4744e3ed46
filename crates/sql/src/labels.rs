//! Labels: the attributes that jobs are looked up by.

use punctual_core::Spec;

/// The labels of a job, which it is looked up by besides its id, name and status; few jobs have any.
pub(crate) fn labels(spec: &Spec) -> impl Iterator<Item = (&'static str, &str)> {
    let user = spec.user_id.iter().map(|user| ("user", user.as_str()));
    let correlation = spec.correlation_id.iter().map(|id| ("correlation", id.as_str()));
    let tags = spec.options.tags.iter().map(|tag| ("tag", tag.as_str()));
    let schedule = spec.options.occurrence.iter().map(|occurrence| ("schedule", occurrence.schedule.as_str()));
    user.chain(correlation).chain(tags).chain(schedule)
}
