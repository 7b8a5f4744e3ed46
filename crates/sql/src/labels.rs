//! Labels: the attributes that jobs are looked up by.

use punctual_core::{Filter, Spec};

/// The labels of a job, which it is looked up by besides its id, name and status; few jobs have any.
pub(crate) fn labels(spec: &Spec) -> impl Iterator<Item = (&'static str, &str)> {
    let user = spec.user_id.iter().map(|user| ("user", user.as_str()));
    let correlation = spec.correlation_id.iter().map(|id| ("correlation", id.as_str()));
    let tags = spec.options.tags.iter().map(|tag| ("tag", tag.as_str()));
    let schedule = spec.options.occurrence.iter().map(|occurrence| ("schedule", occurrence.schedule.as_str()));
    user.chain(correlation).chain(tags).chain(schedule)
}

/// The label that a filter requires, if it requires any: the one of the most selective kind.
pub(crate) fn label_of(filter: &Filter) -> Option<(&'static str, &str)> {
    let labels = [
        ("correlation", &filter.correlation_id),
        ("schedule", &filter.schedule),
        ("user", &filter.user_id),
        ("tag", &filter.tag),
    ];
    labels.into_iter().find_map(|(kind, value)| Some((kind, value.as_deref()?)))
}
