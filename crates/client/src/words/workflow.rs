//! A workflow in the words of users.

use std::collections::BTreeMap;

use punctual_core::{Invalid, Json};
use serde::{Deserialize, Serialize};

use super::JobWords;
use crate::{Draft, Workflow};

/// A workflow: its jobs by their names, and what is to run at its end.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, bound(deserialize = "P: Deserialize<'de>"))]
#[cfg_attr(feature = "schema", schemars(rename = "NewWorkflow"))]
pub struct WorkflowWords<P = Json> {
    /// Its name.
    pub name: String,
    /// Its jobs. One that does not say which job it is is called as in the workflow.
    pub jobs: BTreeMap<String, JobWords<P>>,
    /// Runs if all have succeeded.
    pub on_success: Option<JobWords<P>>,
    /// Runs if one has not.
    pub on_failure: Option<JobWords<P>>,
    /// Runs in any case.
    pub on_complete: Option<JobWords<P>>,
}

type Add = fn(&mut Workflow, Draft);

impl<P: Serialize> WorkflowWords<P> {
    /// The workflow that these words mean, made by somebody; an error names the job and the word that means nothing.
    pub fn workflow(self, created_by: &str) -> Result<Workflow, Invalid> {
        let mut workflow = Workflow::new(self.name);
        workflow.created_by(created_by);
        for (node, mut words) in self.jobs {
            let after = std::mem::take(&mut words.after);
            if words.name.is_empty() {
                words.name.clone_from(&node);
            }
            let draft = draft(&format!("job `{node}`"), words)?;
            workflow.job(node, draft.created_by(created_by)).after(after);
        }
        let callbacks: [(&str, Option<JobWords<P>>, Add); 3] = [
            ("on_success", self.on_success, Workflow::on_success),
            ("on_failure", self.on_failure, Workflow::on_failure),
            ("on_complete", self.on_complete, Workflow::on_complete),
        ];
        for (name, words, add) in callbacks {
            if let Some(words) = words {
                add(&mut workflow, draft(name, words)?.created_by(created_by));
            }
        }
        Ok(workflow)
    }
}

fn draft<P: Serialize>(place: &str, words: JobWords<P>) -> Result<Draft, Invalid> {
    words
        .draft()
        .map_err(|invalid| Invalid::new(invalid.field, format!("{} ({place} of the workflow)", invalid.problem)))
}
