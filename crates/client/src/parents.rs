//! Results of a job's parents.

use punctual_core::{JobError, JobId, Json, Relative, Retry, Status, job::E_DATA, limits};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Failure, Punctual};

/// The result of a parent of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParentResult {
    /// The parent.
    pub id: JobId,
    /// Its name in the workflow.
    pub node: Option<String>,
    /// Its final status.
    pub status: Status,
    /// Its result, if it succeeded and returned one.
    pub result: Option<Json>,
}

/// Number of results per query; each may have a megabyte.
const PAGE: usize = 16;

impl Punctual {
    /// Returns the results of a job's parents, in the order of their ids. Fails if they exceed the [size
    /// limit](limits::PARENT_RESULTS_MAX_BYTES).
    pub async fn parent_results(&self, job: JobId) -> Result<Vec<ParentResult>, Failure> {
        load(self, job).await
    }
}

async fn load(punctual: &Punctual, job: JobId) -> Result<Vec<ParentResult>, Failure> {
    let store = punctual.store();
    let (mut all, mut bytes) = (Vec::new(), 0);
    let parents = store.parents(job).await?;
    for part in parents.chunks(PAGE) {
        let done = part.iter().filter(|parent| parent.status == Status::Succeeded).map(|parent| parent.id);
        let mut results = store.results(done.collect()).await?.into_iter().peekable();
        for Relative { id, node, status } in part.iter().cloned() {
            let result = results.next_if(|(of, _)| *of == id).map(|(_, result)| result);
            bytes += result.as_ref().map_or(0, |result| result.as_str().len());
            all.push(ParentResult { id, node, status, result });
        }
        if bytes > limits::PARENT_RESULTS_MAX_BYTES {
            return Err(too_large());
        }
    }
    Ok(all)
}

fn too_large() -> Failure {
    let max = limits::PARENT_RESULTS_MAX_BYTES;
    let problem = format!(
        "the results of the parents have more than {max} bytes; return references, or set parent_results to never"
    );
    Failure::of(JobError::coded(E_DATA, problem), Retry::Never)
}

/// The result of the parent with this name or id, deserialized as a `T`; a parent without a result counts as null.
pub(crate) fn read<T: DeserializeOwned>(results: &[ParentResult], parent: &str) -> Result<T, Failure> {
    let is_it = |one: &&ParentResult| one.node.as_deref() == Some(parent) || one.id.to_string() == parent;
    let found = results.iter().find(is_it).ok_or_else(|| {
        let problem = format!("no result of `{parent}`: it is not a parent of this job, or results are not requested");
        Failure::of(JobError::coded(E_DATA, problem), Retry::Never)
    })?;
    let null = Json::null();
    found.result.as_ref().unwrap_or(&null).read().map_err(|error| {
        let problem = format!("the result of `{parent}` has another type: {error}");
        Failure::of(JobError::coded(E_DATA, problem), Retry::Never)
    })
}
