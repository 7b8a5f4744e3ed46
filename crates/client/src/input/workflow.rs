//! A workflow as users write it.

use std::collections::BTreeMap;

use punctual_core::{Invalid, Json};
use serde::{Deserialize, Serialize};

use super::JobInput;
use crate::{Draft, Workflow};

/// A workflow: its jobs by name, and its callbacks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, bound(deserialize = "P: Deserialize<'de>"))]
#[cfg_attr(feature = "schema", schemars(rename = "NewWorkflow"))]
pub struct WorkflowInput<P = Json> {
    /// Its name.
    pub name: String,
    /// Jobs by their names in the workflow, which are also their default job names.
    pub jobs: BTreeMap<String, JobInput<P>>,
    /// Runs when all jobs have succeeded.
    pub on_success: Option<JobInput<P>>,
    /// Runs when all jobs have ended and not all succeeded.
    pub on_failure: Option<JobInput<P>>,
    /// Runs when all jobs have ended.
    pub on_complete: Option<JobInput<P>>,
}

type Add = fn(&mut Workflow, Draft);

impl<P: Serialize> WorkflowInput<P> {
    /// The workflow; an error names the job and the invalid field.
    pub fn workflow(self, created_by: &str) -> Result<Workflow, Invalid> {
        let mut workflow = Workflow::new(self.name);
        workflow.created_by(created_by);
        for (node, mut input) in self.jobs {
            let after = std::mem::take(&mut input.after);
            if input.name.is_empty() {
                input.name.clone_from(&node);
            }
            let draft = draft(&format!("job `{node}`"), input)?;
            workflow.job(node, draft.created_by(created_by)).after(after);
        }
        let callbacks: [(&str, Option<JobInput<P>>, Add); 3] = [
            ("on_success", self.on_success, Workflow::on_success),
            ("on_failure", self.on_failure, Workflow::on_failure),
            ("on_complete", self.on_complete, Workflow::on_complete),
        ];
        for (name, input, add) in callbacks {
            if let Some(input) = input {
                add(&mut workflow, draft(name, input)?.created_by(created_by));
            }
        }
        Ok(workflow)
    }
}

fn draft<P: Serialize>(location: &str, input: JobInput<P>) -> Result<Draft, Invalid> {
    input
        .draft()
        .map_err(|invalid| Invalid::new(invalid.field, format!("{} ({location} of the workflow)", invalid.problem)))
}
